package redisstore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/store/redisstore/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
