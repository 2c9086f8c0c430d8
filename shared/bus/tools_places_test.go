package bus

import (
	"slices"
	"strings"
	"testing"
)

//nolint:dupword // a step that comes twice is meant twice
func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	// Each step is an owner's call that asks, or "-owner" for its oldest one that leaves. Behind it stands who begins.
	for name, c := range map[string]struct {
		slots, queue int
		steps        string
	}{
		"one slot":                       {1, 2, "a=a b= c= -a=b -b=c"},
		"no queue":                       {2, 0, "a=a b=b c! -a= c=c"},
		"an eighth is kept for others":   {8, 4, "a=a a=a a=a a=a a=a a=a a=a a= b=b c= -b=c -a=a"},
		"fewest first":                   {4, 8, "a=a a=a a=a b=b a= a= b= c= -a=c -a=a -a=a -c=b"},
		"half of the queue":              {1, 4, "a=a a= a= a! b= b= b! c!"},
		"whoever waits is not passed by": {2, 4, "a=a b=b c= -a=c d= -b=d"},
		"leaving the queue":              {1, 2, "a=a b= ~b= c= -a=c"},
		"equal ones in their order":      {1, 8, "x=x c= b= a= c= -x=c -c=b -b=a -a=c"},
		"none of another's cap":          {4, 4, "a=a a=a a=a a= a= b=b -b= -a=a"},
	} {
		p := newToolPlaces(c.slots, c.queue)
		turns := map[string][]*toolTurn{}
		var all []*toolTurn
		begun := map[*toolTurn]bool{}
		for n, step := range strings.Fields(c.steps) {
			what, want, _ := strings.Cut(step, "=")
			owner := strings.Trim(what, "-~!")
			switch what[0] {
			case '-', '~':
				i := slices.IndexFunc(turns[owner], func(turn *toolTurn) bool { return begun[turn] == (what[0] == '-') })
				p.leave(turns[owner][i])
				turns[owner] = slices.Delete(turns[owner], i, i+1)
			default:
				turn := p.ask(owner)
				if (turn == nil) != strings.HasSuffix(what, "!") {
					t.Errorf("%s: step %d %s: turned away: %v", name, n+1, step, turn == nil)
				}
				if turn != nil {
					turns[owner], all = append(turns[owner], turn), append(all, turn)
				}
			}
			var began []string
			for _, turn := range all {
				select {
				case <-turn.begin:
					if !begun[turn] {
						begun[turn] = true
						began = append(began, turn.owner)
					}
				default:
				}
			}
			if got := strings.Join(began, ""); got != want {
				t.Errorf("%s: step %d %s: %q began", name, n+1, step, got)
			}
		}
	}
}

func TestClosedPlacesTellOnceTheyAreIdle(t *testing.T) {
	t.Parallel()
	p := newToolPlaces(1, 1)
	running, waiting := p.ask("a"), p.ask("b")
	idle := p.close()
	if p.ask("c") != nil {
		t.Error("a place was given by closed places")
	}
	for _, turn := range []*toolTurn{running, waiting} {
		select {
		case <-idle:
			t.Error("idle with turns in hand")
		default:
		}
		p.leave(turn)
	}
	<-idle
	<-p.close() // again
	<-newToolPlaces(1, 1).close()
}
