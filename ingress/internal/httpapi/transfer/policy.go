package transfer

import (
	"net/http"
	"time"

	"parley/ingress/internal/httpapi/httpx"
)

const (
	// PaceTime is the minimum time that a transfer must have waited for its client before the
	// service checks its pace. The pace is an average over the last PaceTime to 2*PaceTime that the
	// transfer waited for its client. The time that the service itself takes is not included.
	PaceTime = 5 * time.Second

	// QueueTime is the maximum time that a body waits for a slot. It is longer than PaceTime, so
	// that slow transfers can be recognized during the wait.
	QueueTime     = 8 * time.Second
	queueInterval = 50 * time.Millisecond

	// crowdedFactor is the factor by which the required pace rises when no slot is free and another
	// transfer waits.
	crowdedFactor = 4

	// NewcomerShare determines how many slots of a limiter are reserved for newcomers:
	// 1/NewcomerShare of them.
	NewcomerShare = 4

	// AddressShare determines how many slots of a limiter one client address may take:
	// 1/AddressShare of them. This share limits attackers because, unlike credentials and
	// organizations, IP addresses are not free.
	AddressShare = 2

	// FilesPerCredential is the maximum number of simultaneous file downloads per credential at one
	// ingress process. The number is limited because each download keeps a part of its content in
	// memory.
	FilesPerCredential   = 16
	filesPerOrganization = 32
	filesAtOnce          = 512

	// UploadsPerCredential is the maximum number of simultaneous uploads per credential at one
	// ingress process. The number is limited because each upload keeps a part of its content in
	// memory.
	UploadsPerCredential = 4
	// UploadsPerOrganization is the maximum number of simultaneous uploads per organization.
	UploadsPerOrganization = 8
	// UploadsAtOnce is the maximum number of all simultaneous uploads.
	UploadsAtOnce = 64

	// Maximum numbers of simultaneous uploads by visitors of widgets.
	visitorUploadsEach            = 2
	visitorUploadsPerOrganization = 8
	visitorUploadsPerAddress      = 4
	visitorUploadsAtOnce          = 32

	// Maximum numbers of simultaneous JSON bodies with documents. Each of these bodies is
	// completely in memory.
	textsPerCredential   = 1
	textsPerOrganization = 2
	textsAtOnce          = 4
	// Maximum numbers of simultaneous documents in JSON bodies of up to MediumBody bytes.
	mediumTextsPerOrganization = 8
	mediumTextsAtOnce          = 32

	// SmallBody is the maximum size in bytes of a body that takes one of the many slots for small
	// bodies.
	SmallBody = 64 << 10
	// MediumBody is the maximum size in bytes of a medium body. Larger bodies use more memory, so
	// there are fewer slots for them.
	MediumBody = 1 << 20

	smallAtOnce   = 512
	smallTime     = 10 * time.Second // time limit for a small body, in addition to the time for its bytes at the slowest pace
	smallPaceTime = time.Second
)

// Policy contains the limits of one kind of transfer at one ingress process. It must not be
// changed, because several limiters may use it.
type Policy struct {
	Bounds

	// Unverified limits the transfers of unverified senders, which are counted separately. They
	// take no slots from verified senders of the same credential or organization.
	Unverified Bounds

	Pace       int64         // required bytes per second; a slower transfer may be aborted to make room for another
	Patience   time.Duration // time that a transfer must have waited for its client before its pace is checked
	Time       time.Duration // time limit in addition to the time for the bytes at Pace; 0: httpx.TransferTime
	Queue      time.Duration // maximum time that a body waits for a slot
	QueueOwn   bool          // whether a body also waits for a slot if its credential, organization or address has reached its limit
	UntilWhole bool          // whether a slot is released as soon as the whole body has been received
	Doing      string        // error message for a sender over its limit; %s stands for the kind of sender
	TooMany    string        // error message, or its beginning, for a transfer without a free slot
	// Limit sets the deadline of a transfer's connection.
	Limit func(conn *http.ResponseController, until time.Time)
}

// Bounds contains the maximum numbers of simultaneous transfers.
type Bounds struct{ PerCredential, PerOrganization, PerAddress, AtOnce int }

// Files is the policy of file downloads.
var Files = &Policy{
	Bounds: Bounds{FilesPerCredential, filesPerOrganization, filesAtOnce / AddressShare, filesAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime,
	Doing: "this %s is reading too many files simultaneously", TooMany: "too many files are being read simultaneously",
	Limit: func(conn *http.ResponseController, until time.Time) { _ = conn.SetWriteDeadline(until) }, // fails only for recorders in tests
}

// SmallBodies is the policy for bodies of up to SmallBody bytes and for the beginning of each
// larger body. Unverified senders get half of the slots.
var SmallBodies = &Policy{
	Bounds:     Bounds{smallAtOnce / 8, smallAtOnce / 4, smallAtOnce / AddressShare, smallAtOnce},
	Unverified: Bounds{smallAtOnce / 8, smallAtOnce / 4, smallAtOnce / 16, smallAtOnce / 2},
	Pace:       httpx.SlowestRate, Patience: smallPaceTime, Time: smallTime, Queue: QueueTime, UntilWhole: true,
	Doing: "this %s is sending too many large bodies simultaneously", TooMany: "too many large bodies are being sent simultaneously",
	Limit: LimitArrival,
}

// VisitorFiles is the policy for uploads by visitors of widgets. Visitors have slots of their own,
// so that they take none from members.
var VisitorFiles = &Policy{
	Bounds: Bounds{visitorUploadsEach, visitorUploadsPerOrganization, visitorUploadsPerAddress, visitorUploadsAtOnce},
	Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
	Doing: "this %s is sending too many files simultaneously", TooMany: "too many files are being sent simultaneously", Limit: LimitArrival,
}

// Documents is the policy for document uploads. DocumentTexts is the policy for documents sent as
// JSON, and MediumTexts the policy for JSON bodies of up to MediumBody bytes.
var (
	Documents = &Policy{
		Bounds: Bounds{UploadsPerCredential, UploadsPerOrganization, UploadsAtOnce / AddressShare, UploadsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
		Doing: "this %s is sending too many documents simultaneously", TooMany: "too many documents are being sent simultaneously",
		Limit: LimitArrival,
	}
	DocumentTexts = &Policy{
		Bounds: Bounds{textsPerCredential, textsPerOrganization, textsAtOnce / AddressShare, textsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
		Doing:   "this %s is sending too many documents as JSON simultaneously; use a form, which allows more",
		TooMany: "too many documents are being sent as JSON simultaneously; use a form, which allows more", Limit: LimitArrival,
	}
	MediumTexts = &Policy{
		Bounds: Bounds{UploadsPerCredential, mediumTextsPerOrganization, mediumTextsAtOnce / AddressShare, mediumTextsAtOnce},
		Pace:   httpx.SlowestRate, Patience: PaceTime, Queue: QueueTime,
		Doing: DocumentTexts.Doing, TooMany: DocumentTexts.TooMany, Limit: LimitArrival,
	}
)
