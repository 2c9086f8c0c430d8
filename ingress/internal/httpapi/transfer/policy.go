package transfer

import (
	"net/http"
	"time"

	"parley/ingress/internal/httpapi/httpx"
)

const (
	// PaceTime is the time that a transfer must have waited for its client before its pace is
	// judged. The pace is an average over the last PaceTime to 2*PaceTime of such waiting. Time
	// that the service itself takes does not count.
	PaceTime = 5 * time.Second

	// QueueTime is the maximum time that a body waits for a slot. QueueTime is longer than
	// PaceTime, so that slow transfers are recognized while the body waits.
	QueueTime     = 8 * time.Second
	queueInterval = 50 * time.Millisecond

	// crowdedFactor multiplies the policy's pace when no slot is free and another transfer waits.
	crowdedFactor = 4

	// NewcomerShare determines how many of a limiter's slots are reserved for newcomers:
	// 1/NewcomerShare of them.
	NewcomerShare = 4

	// AddressShare determines how many of a limiter's slots one client address may take:
	// 1/AddressShare of them. Credentials and organizations cost nothing to create, but IP
	// addresses do.
	AddressShare = 2

	// FilesPerCredential is the maximum number of simultaneous file downloads per credential at one
	// ingress process. Each download keeps a part of its content in memory.
	FilesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512

	// UploadsPerCredential is the maximum number of simultaneous uploads per credential at one
	// ingress process. Each upload keeps a part of its content in memory.
	UploadsPerCredential = 4
	// UploadsPerOrganization is the same maximum for an organization.
	UploadsPerOrganization = 8
	// UploadsAtOnce is the same maximum for all uploads together.
	UploadsAtOnce = 64

	// Maximum numbers of simultaneous uploads of widgets' visitors.
	visitorUploadsEach            = 2
	visitorUploadsPerOrganization = 8
	visitorUploadsPerAddress      = 4
	visitorUploadsAtOnce          = 32

	// Documents sent as JSON are completely in memory.
	textsPerCredential   = 1
	textsPerOrganization = 2
	textsAtOnce          = 4
	// Documents of up to MediumBody bytes have separate slots.
	mediumTextsPerOrganization = 8
	mediumTextsAtOnce          = 32

	// SmallBody is the maximum number of bytes in a body that needs only one of the many slots for
	// small bodies.
	SmallBody = 64 << 10
	// MediumBody is the maximum number of bytes in a body that needs none of the few slots for
	// bodies that use a lot of memory.
	MediumBody = 1 << 20

	smallAtOnce   = 512
	smallTime     = 10 * time.Second // time limit for a small body, in addition to the time for its bytes at the slowest pace
	smallPaceTime = time.Second
)

// Policy contains the limits of one kind of transfer at one ingress process.
type Policy struct {
	Bounds

	// Unverified limits the transfers of unverified senders. They are counted separately, so that
	// they take no slots from verified senders of the same credential or organization.
	Unverified Bounds

	Pace           int64         // in bytes per second; a slower transfer may be cut to make room
	Patience       time.Duration // time of waiting for the client before the pace is judged
	Time           time.Duration // time limit in addition to the time for the bytes at Pace; 0: httpx.TransferTime
	Queue          time.Duration // maximum time that a body waits for a slot
	QueueOwn       bool          // also wait if the limit of the sender's credential, organization or address is reached
	UntilWhole     bool          // release the slot as soon as the body is complete: the slot limits only the waiting for clients
	Doing, TooMany string        // the parts of error messages that name the activity
	// Limit sets the deadline of a transfer's connection.
	Limit func(conn *http.ResponseController, until time.Time)
}

// Bounds contains the maximum numbers of simultaneous transfers.
type Bounds struct{ PerCredential, PerOrganization, PerAddress, AtOnce int }

// Files is the policy of file downloads.
var Files = &Policy{
	Bounds: Bounds{FilesPerCredential, filesPerOrganization, filesAtOnce / AddressShare, filesAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime,
	Doing: "reading too many files simultaneously", TooMany: "too many files are being read simultaneously",
	Limit: func(conn *http.ResponseController, until time.Time) { _ = conn.SetWriteDeadline(until) }, // fails only for recorders in tests
}

// SmallBodies is the policy for bodies of up to SmallBody bytes and for the beginnings of larger
// bodies. Strangers get half of the slots.
var SmallBodies = &Policy{
	Bounds:     Bounds{smallAtOnce / 8, smallAtOnce / 4, smallAtOnce / AddressShare, smallAtOnce},
	Unverified: Bounds{smallAtOnce / 8, smallAtOnce / 4, smallAtOnce / 16, smallAtOnce / 2},
	Pace:       httpx.SlowestRate, Patience: smallPaceTime, Time: smallTime, Queue: QueueTime, UntilWhole: true,
	Doing: "sending too many large bodies simultaneously", TooMany: "too many large bodies are being sent simultaneously", Limit: LimitArrival,
}

// VisitorFiles is the policy for the uploads of widgets' visitors. They have slots of their own, so
// that strangers take none from members.
var VisitorFiles = &Policy{
	Bounds: Bounds{visitorUploadsEach, visitorUploadsPerOrganization, visitorUploadsPerAddress, visitorUploadsAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
	Doing: "sending too many files simultaneously", TooMany: "too many files are being sent simultaneously", Limit: LimitArrival,
}

// Documents is the policy for document uploads. DocumentTexts is the policy for documents sent as
// JSON, and MediumTexts for those with up to MediumBody bytes of JSON.
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
