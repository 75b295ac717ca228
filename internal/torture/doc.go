// Package torture checks that a job of checkpointd is linearizable, whatever happens to
// the servers, to the store and to the network: many clients call one job at once, and
// porcupine looks for an order of their calls that the rules of the design allow.
//
// The model is written from the design alone. Three things about it are unusual:
//
//   - A call without a certain answer (a cut connection, outcome_unknown, a timeout) may
//     have happened at any later time, or never: it is given no end, and any answer.
//   - Time is a bound, not a state: a checkpoint may be seen as expired only if its
//     deadline may have passed before the call returned, and as pending only if the
//     deadline may have been ahead when the call was made.
//   - store_unavailable, overloaded and shutting_down promise that nothing was changed, so
//     such a call is no part of the history, and a change that it made is a violation.
package torture
