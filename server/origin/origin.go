// Package origin decides whether a request by HTTP may be from a page of the node itself: a browser of somebody who may use the node sends requests for
// whatever page is open there.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// IsOwnPage reports whether a request is from a page of the node, from a user who typed the address, or from a program other than a browser. A browser sends
// neither header with a GET to http on another machine; such a request passes. http.CrossOriginProtection would let every GET pass.
func IsOwnPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host == r.Host
}

// Hosts are the names of a node. Whoever has a name can have it lead to the node's address: a browser then takes a page from there for one of the node's own.
type Hosts struct{ names []string }

// NewHosts returns the names of a node: localhost, the name of the machine, those in addresses (HOST:PORT), and more.
func NewHosts(addresses []string, more ...string) *Hosts {
	h := &Hosts{append([]string{"localhost"}, more...)}
	for _, address := range addresses {
		if host, _, err := net.SplitHostPort(address); err == nil {
			h.names = append(h.names, host)
		}
	}
	if host, err := os.Hostname(); err == nil {
		h.names = append(h.names, host)
	}
	return h
}

// Has reports whether a request asks for the node by one of its names, or by any IP address, and returns the name that it asks for.
func (h *Hosts) Has(r *http.Request) (name string, ok bool) {
	name = hostName(r.Host)
	return name, isAddress(name) || slices.ContainsFunc(h.names, func(own string) bool { return strings.EqualFold(own, name) })
}

// hostName takes the port away, and the dot that names may end with.
func hostName(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.Trim(hostPort, "[]")
	}
	return strings.TrimSuffix(host, ".")
}

// isAddress reports whether a host is an IP address, or none, as in requests of HTTP 1.0, which no browser sends.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == ""
}
