package storetest

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// TestReference runs the suite against the reference: a rule that the reference breaks
// is wrong in one of the two, and neither may be trusted with the real stores then.
func TestReference(t *testing.T) {
	t.Parallel()
	Run(t, func(testing.TB) Storage {
		var kept *reference
		return Storage{
			Replicas: true,
			Open: func(_ testing.TB, options Options) coordinator.Store {
				if kept == nil {
					kept = newReference(options)
				}
				return kept
			},
		}
	})
}
