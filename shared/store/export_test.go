package store

import "context"

// ReadSession returns a session and a whole page of its newest turns.
func (s *Store) ReadSession(
	ctx context.Context, name SessionName, before, limit int,
) (found Session, turns []SessionTurn, more bool, err error) {
	page, err := s.PageOfSession(ctx, name, before, limit, 0)
	return page.Session, page.Turns, page.More, err
}
