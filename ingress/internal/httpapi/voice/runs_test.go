package voice

import (
	"testing"

	"parley/shared/apierr"
	"parley/shared/domain"
)

// A connection acts only on the runs that it has started, even in a session that others use.
func TestRunsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	runs := &runs{org: "org_1", principal: "usr_1", started: map[string]bool{"run_1": true}}
	for what, err := range map[string]error{
		"cancelling": runs.Cancel(t.Context(), "run_2"), "noting": runs.SavePlayback(t.Context(), "run_2", domain.Playback{Text: "x"}),
	} {
		if apierr.CodeFor(err) != apierr.NotFound {
			t.Errorf("%s a run that is not the connection's: %v", what, err)
		}
	}
}
