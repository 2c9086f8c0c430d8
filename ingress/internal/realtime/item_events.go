package realtime

import (
	"slices"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
)

// create adds an item of the client's.
func (c *Conversation) create(e *effects, now time.Time, r *request) {
	if !r.object.has("item") {
		r.object.wrong("item", codeMissing, "is required")
	}
	o, ok := r.object.object("item")
	var it *item
	var audio []byte
	at := len(c.items)
	if ok {
		it, audio = readItem(o)
		c.checkItem(o, it)
		at = c.behindItem(r.object)
	}
	if c.faulty(e, r) {
		return
	}
	if it.waiting && !c.roomFor(audio) {
		c.refuse(e, r.id, codeFull, "item.content", tooManyWait)
		return
	}
	if it.waiting && !c.listening() && c.input.rest(false) > againMost {
		c.refuse(e, r.id, codeUncommitted, "item.content", uncommitted)
		return
	}
	if it.id == "" {
		it.id = c.set.NewID("item")
	}
	c.added(e, at, it, true)
	if it.waiting {
		c.held = append(c.held, held{it.id, audio})
		c.release(e)
	}
	c.next(e, now)
}

// roomFor tells whether an item's audio can be kept until it is transcribed.
func (c *Conversation) roomFor(audio []byte) bool {
	bytes := int64(len(audio))
	for _, h := range c.held {
		bytes += int64(len(h.samples))
	}
	kept := c.input.end - c.input.floor(c.listening())
	return len(c.input.waits)+len(c.held) < waitsMost && kept+bytes/bytesOf <= keptMost
}

// checkItem checks an item against those that there are.
func (c *Conversation) checkItem(o object, it *item) {
	if it.id != "" && c.known(it.id) {
		o.wrong("id", codeValue, "there is an item %s already", it.id)
	}
	if it.role == "system" && !c.instructionsFit(c.session.instructions, it.said()) {
		o.wrong("content", codeTooLong, "all instructions together must have at most %d characters", instructionsMax)
	}
	if it.role == "user" && utf8.RuneCountInString(it.said())+c.unansweredLength() > messageMost {
		o.wrong("content", codeTooLong, "what was not answered yet must have at most %d characters together", messageMost)
	}
}

// known tells whether an id is an item's, or will be, or still is for the line's worker.
func (c *Conversation) known(itemID string) bool {
	_, there := c.find(itemID)
	waits := slices.ContainsFunc(c.input.waits, func(w span) bool { return w.item == itemID })
	return waits || there != nil || c.now != nil && c.now.id == itemID || c.input.speech != nil && c.input.speech.item == itemID
}

// unansweredLength is how many characters the user has said since the last response, at least.
func (c *Conversation) unansweredLength() int {
	sum := 0
	for _, it := range c.items {
		switch {
		case it.taken || it.role == "system":
		case it.role == "assistant":
			sum = 0
		default:
			if said := it.said(); said != "" {
				sum += utf8.RuneCountInString(said) + 2
			}
		}
	}
	return sum
}

// behindItem gives the place of a new item: behind the one that the client names, or at the end.
func (c *Conversation) behindItem(o object) int {
	var previous string
	if !o.text("previous_item_id", &previous, nameMax) {
		return len(c.items)
	}
	if previous == "root" {
		return 0
	}
	at, it := c.find(previous)
	if it == nil {
		o.wrong("previous_item_id", codeNoItem, "there is no item %s", previous)
	}
	return at + 1
}

// release puts the audio of items into the line, as soon as nobody is speaking and the worker has listened to nearly all that came:
// what it may still need of that is sent once more.
func (c *Conversation) release(e *effects) {
	if len(c.held) == 0 || c.input.speech != nil || c.listening() && c.input.rest(true) > againMostHeard {
		return
	}
	inserted, audio := c.input.insert(c.held, c.listening())
	e.Audio = append(e.Audio, audio...)
	for _, s := range inserted {
		c.input.waits = append(c.input.waits, s)
		e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceCommit, Item: s.item, From: s.from, To: s.to})
	}
	c.held = nil
}

func (c *Conversation) itemOf(e *effects, r *request) (int, *item) {
	var itemID string
	r.object.need("item_id", &itemID, nameMax)
	if c.faulty(e, r) {
		return -1, nil
	}
	at, it := c.find(itemID)
	if it == nil {
		c.refuse(e, r.id, codeNoItem, "item_id", "there is no item "+itemID)
	}
	return at, it
}

func (c *Conversation) retrieve(e *effects, _ time.Time, r *request) {
	if _, it := c.itemOf(e, r); it != nil {
		c.tell(e, "conversation.item.retrieved", retrievedEvent{it.shown()})
	}
}

// kept tells whether the session keeps an item: it is an answer, or what a run was given.
func (i *item) kept() bool { return i.answer != nil || i.taken && !i.refused && i.said() != "" }

// remove forgets an item that no run was given: what one was given stays with the run, and so in the session.
func (c *Conversation) remove(e *effects, now time.Time, r *request) {
	at, it := c.itemOf(e, r)
	if it == nil {
		return
	}
	if it.kept() {
		c.refuse(e, r.id, codeInSession, "item_id",
			"the item "+it.id+" is part of the session and cannot be deleted alone: DELETE /api/sessions erases the session")
		return
	}
	c.items = slices.Delete(c.items, at, at+1)
	c.input.disown(it.id)
	c.held = slices.DeleteFunc(c.held, func(h held) bool { return h.item == it.id })
	c.tell(e, "conversation.item.deleted", namedEvent{it.id})
	c.next(e, now)
}
