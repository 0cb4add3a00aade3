package sim

// sight is a fault, or a mechanism, that schedules meet.
type sight struct {
	name  string
	fault bool
	from  []string   // what it is called where it is met, beside its name
	rates [4]float64 // how often 1,000 schedules of each of Kinds meet it
}

// floorShare is which share of its rates a sight has to be met. Seeds differ, and a fault may come in a few schedules, many at once.
const floorShare = 0.5

var sights = []sight{}

// sightOf has the number of each sight by its names.
var sightOf = func() map[string]int {
	of := map[string]int{}
	for i, s := range sights {
		of[s.name] = i
		for _, name := range s.from {
			of[name] = i
		}
	}
	return of
}()
