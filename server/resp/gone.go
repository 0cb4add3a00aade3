package resp

import "time"

// A command that only reads ends when its client has closed the connection: nobody needs its answer, and a client that gives up and asks again would
// otherwise leave one more such command at work each time. Changes go on: a client may send one and not wait for the answer. So does a read that
// other clients share.

// lookPause is how long a command works before it looks again whether its client is still there.
const lookPause = time.Second

// leaving is what a command needs to know whether it should end.
type leaving struct {
	may    bool      // the command only reads
	looked time.Time // when it looked for the client last, or began to
}

// errGone is the error of a command whose client has gone.
const errGone = refusal("TRYAGAIN the client has closed the connection, or its sending half")

// gone returns errGone if the command should end because its client has gone. Outside Linux nobody sees that.
func (c *conn) gone() error {
	if !c.leaves.may {
		return nil
	}
	switch now := time.Now(); {
	case c.leaves.looked.IsZero():
		c.leaves.looked = now
	case now.Sub(c.leaves.looked) >= c.s.lookPause:
		if c.leaves.looked = now; c.Gone() {
			return errGone
		}
	}
	return nil
}
