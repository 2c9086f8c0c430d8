package agentloop

import (
	"context"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// begin completes the prompt of a new run: it numbers the passages of attached documents and builds
// the system prompt.
func (r *run) begin(ctx context.Context) error {
	if err := r.numberPassages(ctx); err != nil {
		return err
	}
	r.setSystem()
	return nil
}

// numberPassages assigns source numbers to the passages of all attached documents, so that the
// model can cite them. Documents of earlier turns come first. The numbers depend only on the input,
// so every attempt at the run assigns the same ones.
func (r *run) numberPassages(ctx context.Context) error {
	for i := range r.messages {
		// Copy the attachments, because the caller's input may share them and must not change.
		attached := r.messages[i].Attachments
		if len(attached) == 0 {
			continue
		}
		r.attached = true
		own := make([]llm.Attachment, len(attached))
		copy(own, attached)
		for j := range own {
			if len(own[j].Passages) == 0 {
				continue
			}
			if err := r.readEarlier(ctx); err != nil {
				return err
			}
			own[j].Passages = r.numberAll(own[j].Passages)
		}
		r.messages[i].Attachments = own
	}
	return nil
}

// numberAll assigns source numbers to all passages of a document, even if there are more than a
// tool result may contain.
func (k *known) numberAll(passages []domain.Citation) []domain.Citation {
	numbered := make([]domain.Citation, 0, len(passages))
	for from := 0; from < len(passages); from += maxSources {
		some := k.number(passages[from:min(from+maxSources, len(passages))])
		k.add(some)
		numbered = append(numbered, some...)
	}
	return numbered
}

// cites reports whether the answer may cite sources. This is the case if the agent has tools of its
// own, which may find sources, or if the prompt already contains sources.
func (r *run) cites() bool { return r.ownTools || len(r.sources) > 0 }
