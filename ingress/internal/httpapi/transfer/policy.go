package transfer

import (
	"net/http"
	"time"

	"parley/ingress/internal/httpapi/httpx"
)

const (
	// PaceTime is how long a transfer must have waited for its client before its pace is judged. The pace is measured over
	// the last paceTime to 2*paceTime of such waiting. Time that the service itself takes does not count.
	PaceTime = 5 * time.Second

	// QueueTime is how long a body waits for a slot. It is longer than PaceTime: until then another transfer is known to be slow.
	QueueTime  = 8 * time.Second
	queueEvery = 50 * time.Millisecond

	// crowdedPace is how many times the slowest pace a transfer must keep when no slot is free and another one waits.
	crowdedPace = 4

	// NewcomerShare is the part of a limiter's slots that only newcomers get: one in so many.
	NewcomerShare = 4

	// AddressShare is the part of a limiter's slots that one client address may take: credentials and organizations are
	// free, addresses are not.
	AddressShare = 2

	// FilesPerCredential is how many files may be on their way from an ingress at once: each holds a part of its content in memory.
	FilesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512

	// UploadsPerCredential is how many uploads may come to an ingress at once: each holds a part of its content in memory.
	UploadsPerCredential = 4
	// UploadsPerOrganization is how many uploads an organization may have at an ingress.
	UploadsPerOrganization = 8
	// UploadsAtOnce is how many uploads there may be at an ingress.
	UploadsAtOnce = 64

	// Documents in JSON are in memory as a whole.
	textsPerCredential   = 1
	textsPerOrganization = 2
	textsAtOnce          = 4
	// Those of up to MediumBody bytes have slots of their own.
	mediumTextsPerOrganization = 8
	mediumTextsAtOnce          = 32

	// SmallBody is how many bytes a body may have that needs no slot but one of the many for small bodies.
	SmallBody = 64 << 10
	// MediumBody is how many bytes a body may have that needs none of the few slots for bodies that are large in memory.
	MediumBody = 1 << 20

	smallAtOnce   = 512
	smallTime     = 10 * time.Second // for a whole small body, besides the time that its bytes take at the slowest pace
	smallPaceTime = time.Second
)

// Policy is what goes one way, and how much of it may be on its way at an ingress at once.
type Policy struct {
	Bounds

	// Strangers bounds transfers whose sender is not verified yet. They are counted apart, so that they take nothing of what
	// verified senders of the same credential or organization may have.
	Strangers Bounds

	Pace           int64         // bytes a second: a transfer that is slower may be cut to make room
	Patience       time.Duration // how long a transfer must have waited for its client before its pace is judged
	Time           time.Duration // that a transfer may take beside that of its bytes at the pace; 0: httpx.TransferTime
	Queue          time.Duration // how long a body waits for a slot
	QueueOwn       bool          // it also waits for its own credential, organization or address to have room
	UntilWhole     bool          // a body gives its slot back as soon as it has come: the slot bounds what waits for clients
	Doing, TooMany string        // what a caller is said to be doing, and there is too much of
	// Limit bounds the time of what is on its way.
	Limit func(conn *http.ResponseController, until time.Time)
}

// Bounds are how many transfers there may be at once.
type Bounds struct{ PerCredential, PerOrganization, PerAddress, AtOnce int }

// Files are files that are read.
var Files = &Policy{
	Bounds: Bounds{FilesPerCredential, filesPerOrganization, filesAtOnce / AddressShare, filesAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime,
	Doing: "reading too many files simultaneously", TooMany: "too many files are being read simultaneously",
	Limit: func(conn *http.ResponseController, until time.Time) { _ = conn.SetWriteDeadline(until) }, // tests' recorders have none
}

// SmallBodies are bodies of up to SmallBody bytes, and the beginnings of others. Of strangers' there may be half as many.
var SmallBodies = &Policy{
	Bounds:    Bounds{smallAtOnce / 8, smallAtOnce / 4, smallAtOnce / AddressShare, smallAtOnce},
	Strangers: Bounds{smallAtOnce / 8, smallAtOnce / 4, smallAtOnce / 16, smallAtOnce / 2},
	Pace:      httpx.SlowestRate, Patience: smallPaceTime, Time: smallTime, Queue: QueueTime, UntilWhole: true,
	Doing: "sending too many large bodies simultaneously", TooMany: "too many large bodies are being sent simultaneously", Limit: LimitArrival,
}

// Documents are documents that are sent, DocumentTexts those of them that come as JSON, and MediumTexts those of them that are no
// larger than MediumBody.
var (
	Documents = &Policy{
		Bounds: Bounds{UploadsPerCredential, UploadsPerOrganization, UploadsAtOnce / AddressShare, UploadsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
		Doing: "sending too many documents simultaneously", TooMany: "too many documents are being sent simultaneously", Limit: LimitArrival,
	}
	DocumentTexts = &Policy{
		Bounds: Bounds{textsPerCredential, textsPerOrganization, textsAtOnce / AddressShare, textsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
		Doing:   "sending too many documents as JSON simultaneously; use a form, which allows more",
		TooMany: "too many documents are being sent as JSON simultaneously; use a form, which allows more", Limit: LimitArrival,
	}
	MediumTexts = &Policy{
		Bounds: Bounds{UploadsPerCredential, mediumTextsPerOrganization, mediumTextsAtOnce / AddressShare, mediumTextsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
		Doing: DocumentTexts.Doing, TooMany: DocumentTexts.TooMany, Limit: LimitArrival,
	}
)
