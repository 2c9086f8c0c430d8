// Package charge charges calls of models that belong to no run to an organization's budgets and usage.
package charge

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/id"
	"parley/shared/store/budgetdb"
)

// settleTime is the time limit for storing the usage of calls.
const settleTime = 5 * time.Second

// Budgets is the store of an organization's budgets and usage.
type Budgets interface {
	ReserveCall(
		ctx context.Context, c budgetdb.Call, holdID string, maximum budgetdb.Amounts,
	) (budgets int, lacking *budgetdb.Lacking, err error)
	SettleCall(ctx context.Context, c budgetdb.Call, holdID string, used budgetdb.Amounts, reported budgetdb.CallUsage) error
}

// Account charges calls. Reserve is called before them and, if it succeeds, Settle after them.
type Account struct {
	budgets Budgets
	call    budgetdb.Call
	holdID  string
}

// New returns the account of calls.
func New(budgets Budgets, c budgetdb.Call) *Account { return &Account{budgets: budgets, call: c} }

// Reserve reserves amounts in the budgets that cover the calls, or returns a budget without room.
func (a *Account) Reserve(ctx context.Context, maximum budgetdb.Amounts) (*budgetdb.Lacking, error) {
	a.holdID = id.New("hold")
	budgets, lacking, err := a.budgets.ReserveCall(ctx, a.call, a.holdID, maximum)
	if err != nil {
		a.Settle(ctx, budgetdb.Amounts{}, budgetdb.CallUsage{}) // the reservation may have been made despite the error
	}
	if budgets == 0 {
		a.holdID = ""
	}
	return lacking, err
}

// Settle replaces the reservation by the amounts that the calls have used, and stores the usage that
// the models have reported, even if ctx has ended. If that fails, the sweeper later counts the whole
// reservation as used.
func (a *Account) Settle(ctx context.Context, used budgetdb.Amounts, reported budgetdb.CallUsage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := a.budgets.SettleCall(ctx, a.call, a.holdID, used, reported); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("cannot store the usage of calls without a run; their whole reservation counts as used")
	}
}
