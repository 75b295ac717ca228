// Package load bounds how much a server takes on at once, so that more than memory and store
// can bear waits for a moment or is refused early, and shares what there is, so that no job
// and no client takes all of it while others wait.
package load
