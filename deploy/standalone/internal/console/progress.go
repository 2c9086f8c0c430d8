package console

import (
	"fmt"
	"sync"
	"time"
)

const clearLine = "\r\x1b[K"

// Progress is a line on Err that says what lasts and for how long, while somebody watches.
type Progress struct {
	console *Console
	began   time.Time
	done    chan struct{}
	ended   sync.WaitGroup

	mu   sync.Mutex
	text string
}

// Progress shows a line until Done is called; quiet shows none.
func (c *Console) Progress(quiet bool, format string, args ...any) *Progress {
	p := &Progress{console: c, began: time.Now(), done: make(chan struct{}), text: fmt.Sprintf(format, args...)}
	if quiet || !c.tells {
		return p
	}
	p.ended.Go(p.tick)
	return p
}

// Sayf changes what the line says.
func (p *Progress) Sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = OneLine(fmt.Sprintf(format, args...)) // it may tell what a service has answered
}

// Done takes the line away.
func (p *Progress) Done() {
	close(p.done)
	p.ended.Wait()
}

func (p *Progress) tick() {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	defer func() { p.console.begin()() }()
	for {
		p.mu.Lock()
		line := fmt.Sprintf("%s  %s", p.text, time.Since(p.began).Round(time.Second))
		p.mu.Unlock()
		p.console.pass(Clip(line, p.console.width()-1))
		select {
		case <-ticker.C:
		case <-p.done:
			return
		}
	}
}

// pass shows a line in place of the one before.
func (c *Console) pass(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passing = true
	fmt.Fprint(c.Err, clearLine+line)
}
