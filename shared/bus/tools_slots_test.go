package bus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pool returns a configuration of slots that are divided among the owners of calls.
func pool(slots, queue int) ToolOptions {
	return ToolOptions{Slots: slots, Queue: queue, Owner: func(ToolMessage) (string, bool) { return "", true }}
}

//nolint:dupword // a repeated step is intentional
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	// In the cases, the step "a" is a call by the owner a, and "-a" ends the oldest call of a. The
	// owners whose calls start as a result are listed after "=".
	for name, c := range map[string]struct {
		slots, queue int
		steps        string
	}{
		"one slot":                                {1, 2, "a=a b= c= -a=b -b=c"},
		"no queue":                                {2, 0, "a=a b=b c! -a= c=c"},
		"an eighth is kept for others":            {8, 4, "a=a a=a a=a a=a a=a a=a a=a a= b=b c= -b=c -a=a"},
		"fewest first":                            {4, 8, "a=a a=a a=a b=b a= a= b= c= -a=c -a=a -a=a -c=b"},
		"parts of the queue":                      {1, 4, "a=a a= a= a! b= b= b! c= c= c! d= d! e= e! f! a! -a=a"},
		"none behind no queue":                    {1, 0, "a=a b! c!"},
		"two slots are never one's":               {2, 2, "a=a a= b=b -b= -a=a"},
		"nor are three":                           {3, 2, "a=a a=a a= b=b -b= b=b -a=a"},
		"a waiting organization is not overtaken": {2, 4, "a=a b=b c= -a=c d= -b=d"},
		"leaving the queue":                       {1, 2, "a=a b= ~b= c= -a=c"},
		"equal ones in their order":               {1, 8, "x=x c= b= a= c= -x=c -c=b -b=a -a=c"},
		"none of another's cap":                   {4, 4, "a=a a=a a=a a= a= b=b -b= -a=a"},
	} {
		p := newSlotPool(pool(c.slots, c.queue))
		turns := map[string][]*toolTurn{}
		var all []*toolTurn
		begun := map[*toolTurn]bool{}
		for n, step := range strings.Fields(c.steps) {
			what, want, _ := strings.Cut(step, "=")
			owner := strings.Trim(what, "-~!")
			switch what[0] {
			case '-', '~':
				i := slices.IndexFunc(turns[owner], func(turn *toolTurn) bool { return begun[turn] == (what[0] == '-') })
				p.release(turns[owner][i])
				turns[owner] = slices.Delete(turns[owner], i, i+1)
			default:
				turn := p.acquire(owner)
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

func TestAClosedPoolReportsWhenItIsIdle(t *testing.T) {
	t.Parallel()
	p := newSlotPool(pool(1, 1))
	running, waiting := p.acquire("a"), p.acquire("b")
	idle := p.close()
	if p.acquire("c") != nil {
		t.Error("a closed pool gave a slot")
	}
	for _, turn := range []*toolTurn{running, waiting} {
		select {
		case <-idle:
			t.Error("idle with turns unfinished")
		default:
		}
		p.release(turn)
	}
	<-idle
	<-p.close() // closing the pool again has no effect
	<-newSlotPool(pool(1, 1)).close()
}

// In TestNoOwnerHoldsMoreThanAShare, owners always have more calls than there are slots, and all
// calls take equally long. For every number of slots, a new owner's call starts when the calls that
// were running at its arrival have ended. From then on, no owner has more slots than an equal
// share.
func TestNoOwnerHoldsMoreThanAShare(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 3, 4, 5, 8, 16} {
		for owners := 2; owners <= 3; owners++ {
			p := newSlotPool(pool(slots, 24))
			var all []*toolTurn
			acquire := func(owner string) {
				for range 2 * slots { // more calls than fit into the owner's slots and the owner's part of the queue
					if turn := p.acquire(owner); turn != nil {
						all = append(all, turn)
					}
				}
			}
			acquire("a") // a has no competitors for a while
			for n := 1; n < owners; n++ {
				acquire(string(rune('a' + n)))
			}
			for round := range 20 { // each call takes 30 s, so all running calls end
				began := slices.DeleteFunc(slices.Clone(all), func(turn *toolTurn) bool { return !turn.begun })
				for _, turn := range began {
					p.release(turn)
					all = slices.DeleteFunc(all, func(other *toolTurn) bool { return other == turn })
					if next := p.acquire(turn.owner); next != nil {
						all = append(all, next)
					}
				}
				share := (slots + owners - 1) / owners
				for owner, inUse := range p.inUse {
					if inUse > max(share, 1) {
						t.Errorf("%d slots, %d owners, round %d: %s has %d", slots, owners, round, owner, inUse)
					}
				}
				if slots >= owners && len(p.inUse) < owners {
					t.Errorf("%d slots, %d owners, round %d: only %v have any", slots, owners, round, p.inUse)
				}
				if p.running != slots {
					t.Errorf("%d slots, %d owners, round %d: %d are used", slots, owners, round, p.running)
				}
			}
		}
	}
}

func TestSlotsAreObserved(t *testing.T) {
	t.Parallel()
	var seen []string
	p := newSlotPool(ToolOptions{Slots: 1, Queue: 1, Observe: func(running, waiting int) { seen = append(seen, fmt.Sprint(running, "+", waiting)) }})
	first, second := p.acquire("a"), p.acquire("b")
	p.acquire("b")
	p.release(first)
	p.release(second)
	if got := strings.Join(seen, " "); got != "0+0 1+0 1+1 1+1 1+0 0+0" {
		t.Errorf("observed %s", got)
	}
}
