package bloomd

import "time"

// SetLogPause changes how long the log of failures pauses between two lines. It comes before the first client.
func (s *Server) SetLogPause(d time.Duration) { s.failures.SetPause(d) }
