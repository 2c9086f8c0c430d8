package id_test

import (
	"testing"
	"time"

	"parley/shared/id"
)

func TestFirstLiesBetweenMoments(t *testing.T) {
	t.Parallel()
	before := time.Now()
	made := id.New(id.Run)
	after := time.Now().Add(time.Millisecond)
	if first := id.First(id.Run, before); first > made || !id.Valid(id.Run, first) {
		t.Errorf("%s of before is not before %s", first, made)
	}
	if first := id.First(id.Run, after); first <= made {
		t.Errorf("%s of after is not after %s", first, made)
	}
	if first := id.First(id.Run, time.Time{}); first != "run_0000000000e008000000000000" && !id.Valid(id.Run, first) {
		t.Errorf("the first of all is %s", first)
	}
}
