// Package client calls a checkpointd server over HTTP.
//
// It is generated from the contract; its types are those of package api. [NewClientWithResponses]
// takes the server's URL, and each operation has a method named after it. A refusal is not a Go
// error: the answer has the status, and the problem in the field of that status, such as
// ApplicationproblemJSON409. Bodies that are streams are with the methods of [Client], which
// give the response as it comes.
package client
