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
	p.text = fmt.Sprintf(format, args...)
}

// Done takes the line away.
func (p *Progress) Done() {
	close(p.done)
	p.ended.Wait()
}

func (p *Progress) tick() {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	defer fmt.Fprint(p.console.Err, clearLine)
	for {
		p.mu.Lock()
		line := fmt.Sprintf("%s  %s", p.text, time.Since(p.began).Round(time.Second))
		p.mu.Unlock()
		fmt.Fprint(p.console.Err, clearLine+cut(line, p.console.width()-1))
		select {
		case <-ticker.C:
		case <-p.done:
			return
		}
	}
}
