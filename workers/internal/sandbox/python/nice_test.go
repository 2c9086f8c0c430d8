package python

import "testing"

func TestLongProgramsGiveWay(t *testing.T) {
	t.Parallel()
	o := run(t, Program{Code: "import os, time\na = os.nice(0)\ntime.sleep(1)\na, os.nice(0)"})
	if o.Value != "(0, 10)" {
		t.Error(o.Value, o.Traceback)
	}
}
