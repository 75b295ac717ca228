package storetest

import "testing"

func testLockstep(t *testing.T, s suite) {}
func testRaces(t *testing.T, s suite)    {}
