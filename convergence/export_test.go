package convergence

// Shrink makes a failing script shorter, as Run does.
func Shrink(sys System, s *Script) (*Script, *Violation) {
	o, _ := Options{}.withDefaults()
	v, _ := watched(sys, s, false, o.StepLimit)
	if v == nil {
		return s, nil
	}
	return shrink(sys, s, v, &o, 1)
}
