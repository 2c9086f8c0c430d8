package knowledge

import (
	"slices"
	"sync"
	"time"

	"parley/shared/domain"
)

const (
	maxPictures = 64 << 20         // maximum bytes of all pictures in memory
	pictureLife = 10 * time.Minute // how long a picture stays in memory
)

// pictureKey identifies the content of a page. It contains the hash of the document, so a replaced
// document never gets the pictures of its predecessor.
type pictureKey struct {
	document, sha256 string
	page             int
}

// pictureCache keeps pictures of pages in memory, each for pictureLife. If it is full, it removes
// the oldest picture of the organization whose pictures have the most bytes. It is safe for
// concurrent use.
type pictureCache struct {
	// Maximum of the field bytes.
	limit int

	mu sync.Mutex
	// Sum of the bytes of all organizations.
	bytes int
	// Organizations that have pictures; never an empty entry.
	orgs map[string]*keptPictures
}

// keptPictures are the pictures of one organization. They are accessed only with the lock of the
// cache.
type keptPictures struct {
	bytes int
	order []pictureKey // oldest first
	byKey map[pictureKey]*keptPicture
}

// keptPicture is a picture in the cache. The timer expiry removes it after pictureLife.
type keptPicture struct {
	picture domain.PagePicture
	bytes   int
	expiry  *time.Timer
}

// newPictureCache returns an empty cache with the limit maxPictures.
func newPictureCache() *pictureCache {
	return &pictureCache{limit: maxPictures, orgs: map[string]*keptPictures{}}
}

// get returns a picture, and whether the cache has it. The picture's data is shared and must not be
// changed. A hit does not extend the life of the picture.
func (c *pictureCache) get(org string, key pictureKey) (domain.PagePicture, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.orgs[org]
	if of == nil || of.byKey[key] == nil {
		return domain.PagePicture{}, false
	}
	return of.byKey[key].picture, true
}

// add keeps a picture. It replaces a picture with the same key.
func (c *pictureCache) add(org string, key pictureKey, picture domain.PagePicture) {
	const perWord = 80 // approximate size of a word in memory, in bytes
	c.mu.Lock()
	defer c.mu.Unlock()

	// A concurrent request may have added the same picture. Its timer must not remove the new
	// picture.
	c.remove(org, key)

	of := c.orgs[org]
	if of == nil {
		of = &keptPictures{byKey: map[pictureKey]*keptPicture{}}
		c.orgs[org] = of
	}
	kept := &keptPicture{picture: picture, bytes: len(picture.Data) + perWord*len(picture.Words)}
	kept.expiry = time.AfterFunc(pictureLife, func() { c.expire(org, key, kept) })
	of.byKey[key], of.order = kept, append(of.order, key)
	of.bytes += kept.bytes
	c.bytes += kept.bytes

	for c.bytes > c.limit {
		largest := c.largest()
		c.remove(largest, c.orgs[largest].order[0])
	}
}

// forget removes the pictures of a document. It must be called when the document is deleted, so
// that deleted contents do not stay in memory.
func (c *pictureCache) forget(org, documentID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.orgs[org]
	if of == nil {
		return
	}
	for key := range of.byKey {
		if key.document == documentID {
			c.remove(org, key)
		}
	}
}

// expire removes a picture, unless it was removed or replaced in the meantime. The comparison of
// pointers detects a replacement.
func (c *pictureCache) expire(org string, key pictureKey, kept *keptPicture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of := c.orgs[org]; of != nil && of.byKey[key] == kept {
		c.remove(org, key)
	}
}

// largest returns the organization whose pictures have the most bytes. The caller holds the lock.
func (c *pictureCache) largest() (org string) {
	most := -1
	for name, of := range c.orgs {
		if of.bytes > most {
			org, most = name, of.bytes
		}
	}
	return org
}

// remove removes a picture if the cache has it, and stops its timer. It also removes the
// organization if this was its last picture. The caller holds the lock.
func (c *pictureCache) remove(org string, key pictureKey) {
	of := c.orgs[org]
	if of == nil || of.byKey[key] == nil {
		return
	}
	kept := of.byKey[key]
	kept.expiry.Stop()
	delete(of.byKey, key)
	of.order = slices.DeleteFunc(of.order, func(k pictureKey) bool { return k == key })
	of.bytes -= kept.bytes
	c.bytes -= kept.bytes
	if len(of.byKey) == 0 {
		delete(c.orgs, org)
	}
}
