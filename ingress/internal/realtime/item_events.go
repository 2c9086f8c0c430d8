package realtime

import (
	"slices"
	"time"
	"unicode/utf8"

	"parley/shared/contract"
)

// createItem handles an event that creates an item. An item with audio gets its transcript later.
// Errors in the item are reported together.
func createItem(c *Conversation, e *effects, now time.Time, r *request) {
	if !r.object.has("item") {
		r.object.wrong("item", codeMissing, "is required")
	}
	o, ok := r.object.object("item")
	var it *item
	var audio []byte
	at := len(c.items)
	if ok {
		it, audio = readItem(o)
		checkItem(c, o, it)
		at = insertionIndex(c, r.object)
	}
	if c.faulty(e, r) {
		return
	}

	// The limits are checked last, because errors in the item itself are more helpful to the
	// client.
	if it.waiting && !roomFor(c, audio) {
		c.refuse(e, r.id, codeFull, "item.content", tooManyWait)
		return
	}
	if it.waiting && !c.session.listening() && c.input.rest(false) > maxAgain {
		c.refuse(e, r.id, codeUncommitted, "item.content", uncommitted)
		return
	}

	if it.id == "" {
		it.id = c.newID("item")
	}
	c.added(e, at, it, true)

	if it.waiting {
		c.heldAudio = append(c.heldAudio, heldAudio{it.id, audio})
		c.release(e)
	}
	c.next(e, now)
}

// roomFor reports whether there is enough memory to keep the audio of an item until it is
// transcribed. The limits are maxWaits utterances and maxKept samples.
func roomFor(c *Conversation, audio []byte) bool {
	bytes := int64(len(audio))
	for _, h := range c.heldAudio {
		bytes += int64(len(h.samples))
	}

	kept := c.input.end - c.input.firstKept(c.session.listening())
	return len(c.input.waits)+len(c.heldAudio) < maxWaits && kept+bytes/sampleBytes <= maxKept
}

// checkItem checks that an item does not conflict with existing items. It also checks the limits
// for the texts of all items.
func checkItem(c *Conversation, o object, it *item) {
	if it.id != "" && c.known(it.id) {
		o.wrong("id", codeValue, "item %s already exists", it.id)
	}
	if it.role == "system" && !c.items.instructionsFit(c.session.instructions, it.said()) {
		o.wrong("content", codeTooLong, "all instructions must have at most %d characters in total", maxInstructions)
	}
	if it.role == "user" && utf8.RuneCountInString(it.said())+c.items.unansweredLength() > maxMessage {
		o.wrong("content", codeTooLong, "unanswered items must have at most %d characters in total", maxMessage)
	}
}

// known reports whether an id is in use. Ids in use include the ids of an answer or speech in
// progress, and those of deleted items that the worker has not transcribed yet.
func (c *Conversation) known(itemID string) bool {
	_, there := c.items.find(itemID)
	waits := slices.ContainsFunc(c.input.waits, func(w span) bool { return w.item == itemID })
	return waits || there != nil || c.now != nil && c.now.id == itemID || c.input.speech != nil && c.input.speech.item == itemID
}

// unansweredLength returns the number of characters in the user's items since the last response.
// The result is an upper limit for the length of the message.
func (l *items) unansweredLength() int {
	sum := 0
	for _, it := range *l {
		switch {
		case it.taken || it.role == "system":
		case it.role == "assistant":
			sum = 0
		default:
			if said := it.said(); said != "" {
				// The texts will be joined with empty lines, each of which takes two characters.
				sum += utf8.RuneCountInString(said) + 2
			}
		}
	}
	return sum
}

// insertionIndex returns the index at which a new item is inserted: after the item that the client
// names, or at the end. "root" means the beginning. An unknown item is a fault; the result is then
// 0.
func insertionIndex(c *Conversation, o object) int {
	var previous string
	if !o.text("previous_item_id", &previous, maxName) {
		return len(c.items)
	}
	if previous == "root" {
		return 0
	}
	at, it := c.items.find(previous)
	if it == nil {
		o.wrong("previous_item_id", codeNoItem, "unknown item %s", previous)
	}
	return at + 1
}

// release sends the audio of held items to the worker, once the user is silent and the worker has
// processed nearly all input. After that, it sends the samples again that the worker may still
// need. Each item then waits for its transcript like an utterance. release does nothing if no audio
// is held, so callers may call it after every change.
func (c *Conversation) release(e *effects) {
	if len(c.heldAudio) == 0 || c.input.speech != nil || c.session.listening() && c.input.rest(true) > maxAgainListening {
		return
	}
	inserted, audio := c.input.insert(c.heldAudio, c.session.listening())
	e.Audio = append(e.Audio, audio...)
	for _, s := range inserted {
		c.input.waits = append(c.input.waits, s)
		e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceCommit, Item: s.item, From: s.from, To: s.to})
	}
	c.heldAudio = nil
}

// namedItem returns the index of the item that an event names, and the item. If there is no such
// item, it sends an error and returns nil. A missing or invalid item_id is reported as well. The
// index is -1 if there is no item.
func namedItem(c *Conversation, e *effects, r *request) (int, *item) {
	var itemID string
	r.object.need("item_id", &itemID, maxName)
	if c.faulty(e, r) {
		return -1, nil
	}
	at, it := c.items.find(itemID)
	if it == nil {
		c.refuse(e, r.id, codeNoItem, "item_id", "unknown item "+itemID)
	}
	return at, it
}

// retrieveItem sends the requested item to the client.
func retrieveItem(c *Conversation, e *effects, _ time.Time, r *request) {
	if _, it := namedItem(c, e, r); it != nil {
		c.emit(e, "conversation.item.retrieved", retrievedEvent{it.shown()})
	}
}

// kept reports whether the item is stored in the session, either as an answer or as the input of a
// run.
func (i *item) kept() bool { return i.answer != nil || i.taken && !i.refused && i.said() != "" }

// deleteItem deletes an item. Items that were passed to a run belong to the stored session and
// cannot be deleted. The item is removed from the conversation, and an outstanding transcript is
// discarded. Deletion may let a response begin.
func deleteItem(c *Conversation, e *effects, now time.Time, r *request) {
	at, it := namedItem(c, e, r)
	if it == nil {
		return
	}
	// If the item were deleted here, the stored session would still contain it.
	if it.kept() {
		c.refuse(e, r.id, codeInSession, "item_id",
			"the item "+it.id+" is part of the session and cannot be deleted separately: DELETE /api/sessions erases the session")
		return
	}
	c.items = slices.Delete(c.items, at, at+1)
	c.input.disown(it.id)
	c.heldAudio = slices.DeleteFunc(c.heldAudio, func(h heldAudio) bool { return h.item == it.id })
	c.emit(e, "conversation.item.deleted", namedEvent{it.id})
	// A response may have waited for the transcript of the deleted item.
	c.next(e, now)
}
