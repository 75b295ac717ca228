package handlers_test

import (
	"testing"

	"github.com/checkpointd/checkpointd/api/apitest"
)

func TestEveryExampleOfTheContractHolds(t *testing.T) {
	t.Parallel()
	apitest.Run(t, serve(t).server.URL)
}
