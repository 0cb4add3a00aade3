package sim

import "testing"

// met checks that a report has counted nothing without a name, and nothing less often than so many schedules should.
func (r *Report) met(t *testing.T) {
	t.Helper()
	r.judge()
	t.Logf("%d schedules, %d of %d steps skipped, faults %v, mechanisms %v, never %v", r.Schedules, r.Skipped, r.Steps, r.Faults, r.Mechanisms, r.Never)
	for what := range r.Mechanisms {
		if _, named := sightOf[what]; !named {
			t.Errorf("what is met as %q has no name", what)
		}
	}
	for _, s := range r.Below {
		t.Errorf("below its floor: %s", s)
	}
}
