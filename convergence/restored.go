package convergence

// catchesUp reports whether a replica may come back with an older backup without copies from others, see System.Restored. What only
// that replica had done since is lost, except messages in transit.
func (w *world) catchesUp(n *node) bool {
	_, copies := n.rep.(Copier)
	return w.sys.Restored && !copies
}

// catchUp lets a replica ask others for what it is missing.
func (g *gen) catchUp(r int) {
	if !g.can.repair {
		return
	}
	for from := range g.s.Replicas {
		if from != r && from != g.away && g.percent(60) {
			ask := g.on("ask", r)
			g.deliver(g.add(Step{Kind: "answer", Ref: ask, B: from}), r)
		}
	}
}
