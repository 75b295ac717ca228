package storetest

import "testing"

// TestReference runs the suite against the reference: a rule that the reference breaks
// is wrong in one of the two, and neither may be trusted with the real stores then.
func TestReference(t *testing.T) {
	t.Parallel()
	Run(t, referenceFactory)
}
