package sealed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"parley/shared/lifecycle"
	"parley/shared/secrets"
	"parley/shared/store/sealdb"
	"parley/shared/telemetry"
)

const (
	// interval between two checks
	checkInterval = 10 * time.Minute
	checkRetry    = 5 * time.Second // retry interval after a check to which the database did not respond
)

// Watch reports to the operator the sealed values that this process cannot open, in the log and in
// metrics. Its methods are safe for concurrent use. Run must be called only once.
type Watch struct {
	box *secrets.Box
	log zerolog.Logger
	// number of values that could not be opened, by kind
	unopened *prometheus.CounterVec
	// number of keys that SECRETS_KEY lacks, by kind
	missing   *prometheus.GaugeVec
	duplicate bool // another watch of this process already checks the database
	// the missing keys at the last check, by kind; they are logged only if they have changed since
	// then
	reported map[sealdb.Kind]string
}

// NewWatch returns a watch for an ingress or a worker. If an ingress and a worker run in one
// process and share a registry, their watches share the metrics. Only the watch that was created
// first then checks the database.
func NewWatch(box *secrets.Box, registry prometheus.Registerer, log zerolog.Logger) (*Watch, error) {
	w := &Watch{
		box: box, log: log, reported: map[sealdb.Kind]string{},
		unopened: telemetry.CounterVec("parley_secrets_unopened_total",
			"Encrypted values that were needed but could not be decrypted with any key in SECRETS_KEY, by kind.", "kind"),
		missing: telemetry.GaugeVec("parley_secrets_missing_keys",
			"Number of keys that stored values need and that SECRETS_KEY lacks, by kind of value.", "kind"),
	}

	err := registry.Register(w.unopened)
	if known, is := errors.AsType[prometheus.AlreadyRegisteredError](err); is {
		if shared, is := known.ExistingCollector.(*prometheus.CounterVec); is {
			w.unopened, w.duplicate = shared, true
			return w, nil
		}
	}

	if err == nil {
		err = registry.Register(w.missing)
	}

	if err != nil {
		return nil, fmt.Errorf("registering metrics for encrypted values: %w", err)
	}

	for _, kind := range sealdb.Kinds {
		w.unopened.WithLabelValues(string(kind)) // the counters start at 0, so that the first report is visible as an increase
	}

	return w, nil
}

// OpenText opens a sealed text. If the text cannot be opened with any key, OpenText reports that
// and returns sealdb.ErrUnopened.
func (w *Watch) OpenText(kind sealdb.Kind, org, id, sealed string) (string, error) {
	plain, err := w.box.Open(sealed, location(kind, org, id))
	if err != nil {
		w.Unopened(sealdb.Value{Kind: kind, Keys: secrets.KeyID(sealed), OrganizationID: org, ID: id})
		return "", sealdb.ErrUnopened
	}
	return plain, nil
}

// UnopenedBytes is like Unopened, for binary values, whose bytes contain the id of the key; see
// sealdb.Store.ReportUnopened.
func (w *Watch) UnopenedBytes(v sealdb.Value, sealed []byte) {
	v.Keys = secrets.KeyIDOfBytes(sealed)
	w.Unopened(v)
}

// Unopened reports a sealed value that was needed but could not be opened. Each call is logged and
// counted, because each means that something does not work.
func (w *Watch) Unopened(v sealdb.Value) {
	w.unopened.WithLabelValues(string(v.Kind)).Inc()
	why := "the value's key is not in SECRETS_KEY"
	if slices.Contains(w.box.KeyIDs(), v.Keys) {
		why = "the value was changed, or belongs to another record"
	}

	// The log contains the record's kind and id, so that the operator can find it.
	var name string
	switch v.Kind {
	case sealdb.KindHook, sealdb.KindDelivery:
		name = "hook_id"
	case sealdb.KindNotification:
		name = "endpoint_id"
	case sealdb.KindContent:
		name = "hash"
	default:
		name = "agent_id"
	}

	log := w.log
	if v.Kind == sealdb.KindDelivery {
		log = log.With().Str("delivery_id", v.Part).Logger()
	}

	log.Error().Str("kind", string(v.Kind)).Str("key_id", v.Keys).Str("org_id", v.OrganizationID).Str(name, v.ID).Str("reason", why).
		Msg("cannot decrypt a stored value")
}

// Run checks initially, and then every ten minutes, whether the database needs keys that
// SECRETS_KEY does not contain. The check reads a few index entries. Run logs and counts missing
// keys. It does not stop the process, because everything that does not need these keys still works.
func (w *Watch) Run(ctx context.Context, values Values) error {
	if w.duplicate {
		<-ctx.Done()
		return nil
	}

	for ctx.Err() == nil {
		pause := checkInterval
		if err := w.check(ctx, values); err != nil && ctx.Err() == nil {
			w.log.Debug().Err(err).Msg("cannot check yet which keys the stored values need")
			pause = checkRetry
		}
		_ = lifecycle.Sleep(ctx, pause) // an error means that ctx has ended
	}
	return nil
}

// check reads which keys the values of each kind need, and logs and counts the missing keys. If the
// database does not respond, it returns the error and changes nothing for the remaining kinds.
func (w *Watch) check(ctx context.Context, values Values) error {
	known := w.box.KeyIDs()
	for _, kind := range sealdb.Kinds {
		combinations, err := values.SealedKeys(ctx, kind)
		if err != nil {
			return err
		}
		// A value may need several keys, so a key can occur in several combinations.
		missing := map[string]bool{}
		for _, combination := range combinations {
			for keyID := range strings.SplitSeq(combination, ",") {
				if !slices.Contains(known, keyID) {
					missing[keyID] = true
				}
			}
		}
		w.missing.WithLabelValues(string(kind)).Set(float64(len(missing)))
		ids := strings.Join(slices.Sorted(maps.Keys(missing)), ",")
		// A missing key is logged only when the set of missing keys changes, and not every ten
		// minutes.
		if ids != "" && ids != w.reported[kind] {
			w.log.Error().Str("kind", string(kind)).Str("key_id", ids).
				Msg("stored values need a key that SECRETS_KEY does not have; add the key again, then run parley secrets reseal")
		}
		w.reported[kind] = ids
	}

	return nil
}
