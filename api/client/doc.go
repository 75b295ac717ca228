// Package client calls a checkpointd server over HTTP.
//
// It is generated from the contract; its types are those of package api. [NewClientWithResponses]
// takes the server's URL, and each operation has a method named after it. A refusal is not a Go
// error: the answer has the status, and the problem in the field of that status, such as
// ApplicationProblemJSON409.
//
// Two kinds of bodies want the methods of [Client] and those that end in WithBody. Streams, a
// restore or an upload, are otherwise held in memory. And encoding/json writes <, > and & inside
// strings as \u003c and the like, so that values sent as structs are equal and not the same bytes;
// a body that is given as a reader goes out as it is.
package client
