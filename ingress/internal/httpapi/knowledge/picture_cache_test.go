package knowledge

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/shared/domain"
)

// TestFullPictureCacheShrinksTheLargestOrganization checks that an organization that reads many
// pages does not push the pictures of other organizations out of the cache.
func TestFullPictureCacheShrinksTheLargestOrganization(t *testing.T) {
	t.Parallel()
	c := newPictureCache()
	c.limit = 1000
	picture := domain.PagePicture{Data: make([]byte, 300)}
	key := func(page int) pictureKey { return pictureKey{"doc_1", "sum", page} }
	c.add("small", key(1), picture)
	for page := range 10 {
		c.add("large", key(page), picture)
	}
	for org, pages := range map[string][]int{"small": {1}, "large": {8, 9}} {
		for _, page := range pages {
			if _, found := c.get(org, key(page)); !found {
				t.Errorf("%s lost page %d", org, page)
			}
		}
	}
	if _, found := c.get("large", key(7)); found || c.bytes != 900 {
		t.Errorf("found %t, %d bytes", found, c.bytes)
	}

	c.add("large", key(9), picture) // adds the picture a second time
	c.forget("large", "doc_2")
	c.forget("large", "doc_1")
	if _, found := c.get("small", key(1)); !found || c.bytes != 300 || len(c.orgs) != 1 {
		t.Errorf("found %t, %d bytes of %d organizations", found, c.bytes, len(c.orgs))
	}
}

func TestPicturesLeaveTheMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newPictureCache()
		key := pictureKey{"doc_1", "sum", 1}
		c.add("org_1", key, domain.PagePicture{Data: make([]byte, 300)})
		<-time.After(pictureLife - time.Second)
		c.add("org_1", key, domain.PagePicture{Data: make([]byte, 300)}) // replacing a picture restarts its time in the cache
		<-time.After(2 * time.Second)
		synctest.Wait()
		if _, found := c.get("org_1", key); !found {
			t.Error("a renewed picture left early")
		}
		<-time.After(pictureLife)
		synctest.Wait()
		if _, found := c.get("org_1", key); found || c.bytes != 0 || len(c.orgs) != 0 {
			t.Errorf("found %t, %d bytes", found, c.bytes)
		}
	})
}
