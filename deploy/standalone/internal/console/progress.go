package console

import (
	"fmt"
	"sync"
	"time"

	"parley/shared/truncate"
)

// clearLine moves the cursor to the beginning of the line and erases the line.
const clearLine = "\r\x1b[K"

// Progress is a line on Err that describes what a command is doing and how long it has taken so
// far. It appears only on a terminal. Other output may be printed meanwhile: the line disappears
// and comes back.
type Progress struct {
	console *Console
	began   time.Time
	done    chan struct{}
	ended   sync.WaitGroup

	mu   sync.Mutex
	text string
}

// Progress shows a line until its Done method is called, which must happen once. If quiet is true,
// it shows nothing. The result is never nil.
func (c *Console) Progress(quiet bool, format string, args ...any) *Progress {
	p := &Progress{console: c, began: time.Now(), done: make(chan struct{}), text: fmt.Sprintf(format, args...)}
	if quiet || !c.errTerminal {
		return p
	}
	p.ended.Go(p.tick)
	return p
}

// Sayf replaces the text of the progress line.
func (p *Progress) Sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = OneLine(fmt.Sprintf(format, args...)) // the text may contain a response of the service
}

// Done removes the progress line and waits until it is removed. It must be called exactly once.
func (p *Progress) Done() {
	close(p.done)
	p.ended.Wait()
}

// tick updates the line four times a second until Done is called. Then it removes the line.
func (p *Progress) tick() {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	defer func() { p.console.begin()() }()

	for {
		p.mu.Lock()
		line := fmt.Sprintf("%s  %s", p.text, time.Since(p.began).Round(time.Second))
		p.mu.Unlock()
		p.console.showProgress(truncate.Ellipsis(line, p.console.width()-1))
		select {
		case <-ticker.C:
		case <-p.done:
			return
		}
	}
}

// showProgress replaces the progress line on the terminal with the argument line, which must fit the
// width of the terminal.
func (c *Console) showProgress(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progressShown = true
	fmt.Fprint(c.Err, clearLine+line)
}
