// Package charge charges model calls that belong to no run to the budgets and usage of an
// organization.
package charge

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"parley/shared/id"
	"parley/shared/store/budgetdb"
)

// chargeTime is the time limit for storing the charge and the usage of the calls.
const chargeTime = 5 * time.Second

// Budgets stores the budgets and the usage of organizations.
type Budgets interface {
	ReserveCall(
		ctx context.Context, c budgetdb.Call, holdID string, maximum budgetdb.Amounts,
	) (budgets int, lacking *budgetdb.InsufficientBudget, err error)
	ChargeCall(ctx context.Context, c budgetdb.Call, holdID string, used budgetdb.Amounts, reported budgetdb.CallUsage) error
}

// Account charges model calls. Reserve must be called before the calls. If Reserve succeeds, Charge
// must be called after the calls.
type Account struct {
	budgets Budgets
	call    budgetdb.Call
	holdID  string
}

// New returns an account for the calls that c describes.
func New(budgets Budgets, c budgetdb.Call) *Account { return &Account{budgets: budgets, call: c} }

// Reserve reserves amounts in all budgets that apply to the calls. If a budget does not have enough
// left, Reserve reserves nothing and returns that budget.
func (a *Account) Reserve(ctx context.Context, maximum budgetdb.Amounts) (*budgetdb.InsufficientBudget, error) {
	a.holdID = id.New("hold")
	budgets, lacking, err := a.budgets.ReserveCall(ctx, a.call, a.holdID, maximum)
	if err != nil {
		a.Charge(ctx, budgetdb.Amounts{}, budgetdb.CallUsage{}) // the reservation may exist despite the error
	}
	if budgets == 0 {
		a.holdID = ""
	}
	return lacking, err
}

// Charge replaces the reservation with the amounts that the calls have used. It also stores the
// usage that the models have reported. Charge works even if ctx has ended. If storing fails, the
// sweeper later counts the whole reservation as used.
func (a *Account) Charge(ctx context.Context, used budgetdb.Amounts, reported budgetdb.CallUsage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTime)
	defer cancel()
	if err := a.budgets.ChargeCall(ctx, a.call, a.holdID, used, reported); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("cannot store the usage of calls without a run; their whole reservation counts as used")
	}
}
