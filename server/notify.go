package server

import (
	"net"
	"os"
)

// notify sends the state of the node to the service manager, by the datagram that systemd asks for in $NOTIFY_SOCKET. Without that variable
// it does nothing. States are those of sd_notify(3): READY=1 and STOPPING=1.
func notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"}) // a name that begins with @ is abstract
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}
