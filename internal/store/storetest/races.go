package storetest

import "testing"

func testRaces(t *testing.T, s suite) {}
