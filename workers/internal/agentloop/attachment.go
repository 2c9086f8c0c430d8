package agentloop

import (
	"context"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// begin completes the prompt of a new run.
func (r *run) begin(ctx context.Context) error {
	if err := r.numberPassages(ctx); err != nil {
		return err
	}
	r.setSystem()
	return nil
}

// numberPassages gives the passages of all attached documents their source numbers, so that the
// model can cite them. Documents of earlier turns come first. The numbers depend only on the input, so
// each attempt at the run gives the same ones.
func (r *run) numberPassages(ctx context.Context) error {
	for i := range r.messages {
		// A message may be shared with the input, which must not change.
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

// numberAll numbers the passages of a document, however many they are.
func (k *known) numberAll(passages []domain.Citation) []domain.Citation {
	numbered := make([]domain.Citation, 0, len(passages))
	for from := 0; from < len(passages); from += maxSources {
		some := k.number(passages[from:min(from+maxSources, len(passages))])
		k.add(some)
		numbered = append(numbered, some...)
	}
	return numbered
}

// cites reports whether the model may cite sources: those of the agent's tools, of attached
// documents, or of calls that the request contains.
func (r *run) cites() bool { return r.ownTools || len(r.sources) > 0 }
