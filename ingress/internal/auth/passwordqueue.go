package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// passwordWait is the longest time for which a request waits for a slot.
	passwordWait = 5 * time.Second
	// waitersPerSlot is the maximum number of requests that wait for each slot. With this limit,
	// the requests of a full queue take less than two seconds.
	waitersPerSlot = 64
)

var errPasswordsBusy = errors.New("too many simultaneous password checks")

// passwordQueue lets requests that compute a hash wait for a slot. The waiting clients take turns,
// so that a client that sends many requests does not delay the others. If the queue is full, the
// client with the most waiting requests loses one. It is safe for concurrent use.
type passwordQueue struct {
	mu      sync.Mutex
	free    int                          // slots that are not in use; 0 while requests wait
	room    int                          // maximum number of waiting requests
	waiting int                          // waiting requests
	clients map[string][]*passwordWaiter // the waiting requests of each client, oldest first
	turns   []string                     // the clients with waiting requests; the first one is next
}

// passwordWaiter is a waiting request. The queue sends true when the request gets a slot, and false
// when it rejects the request.
type passwordWaiter struct{ admitted chan bool }

// newPasswordQueue returns a queue for the given number of slots.
func newPasswordQueue(slots int) *passwordQueue {
	return &passwordQueue{free: slots, room: waitersPerSlot * slots, clients: map[string][]*passwordWaiter{}}
}

// enter waits for a slot. It returns overloaded if the queue has no room for a request of this
// client, if another client displaces the request, or if the wait exceeds passwordWait. It also
// returns the error of ctx. If it returns nil, the caller must call leave after
// the computation.
func (q *passwordQueue) enter(ctx context.Context, client string) error {
	w, waits, err := q.add(client)
	if !waits {
		return err
	}

	timer := time.NewTimer(passwordWait)
	defer timer.Stop()
	select {
	case admitted := <-w.admitted:
		if !admitted {
			return busy(errPasswordsBusy)
		}
		return nil
	case <-timer.C:
		err = busy(errPasswordsBusy)
	case <-ctx.Done():
		err = fmt.Errorf("waiting to check a password: %w", ctx.Err())
	}

	// The request may have got a slot in the meantime.
	if !q.remove(client, w) && <-w.admitted {
		q.leave()
	}
	return err
}

// add takes a free slot, or else adds a waiting request. It reports false and no error if the
// request got a slot, and overloaded if the queue has no room for it.
func (q *passwordQueue) add(client string) (w *passwordWaiter, waits bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		return nil, false, nil
	}
	if q.waiting >= q.room && !q.rejectOther(client) {
		return nil, false, busy(errPasswordsBusy)
	}

	w = &passwordWaiter{admitted: make(chan bool, 1)}
	if len(q.clients[client]) == 0 {
		q.turns = append(q.turns, client)
	}
	q.clients[client] = append(q.clients[client], w)
	q.waiting++
	return w, true, nil
}

// rejectOther makes room for a request of the client: it rejects the newest request of the client
// with the most waiting requests. It reports false if this would leave the other client
// with fewer waiting requests than this one.
func (q *passwordQueue) rejectOther(client string) bool {
	largest := client
	for other, list := range q.clients {
		if len(list) > len(q.clients[largest]) {
			largest = other
		}
	}

	list := q.clients[largest]
	if len(list) < len(q.clients[client])+2 {
		return false
	}
	list[len(list)-1].admitted <- false
	q.clients[largest] = list[:len(list)-1]
	q.waiting--
	return true
}

// remove removes a waiting request. It reports false if the request no longer waits.
func (q *passwordQueue) remove(client string, w *passwordWaiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.clients[client]
	i := slices.Index(list, w)
	if i < 0 {
		return false
	}

	q.waiting--
	if len(list) > 1 {
		q.clients[client] = slices.Delete(list, i, i+1)
		return true
	}
	delete(q.clients, client)
	q.turns = slices.DeleteFunc(q.turns, func(other string) bool { return other == client })
	return true
}

// leave gives the caller's slot to the oldest request of the next client.
func (q *passwordQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		q.free++
		return
	}

	client := q.turns[0]
	list := q.clients[client]
	q.turns = q.turns[1:]
	if len(list) > 1 {
		q.clients[client] = list[1:]
		q.turns = append(q.turns, client)
	} else {
		delete(q.clients, client)
	}
	q.waiting--
	list[0].admitted <- true
}
