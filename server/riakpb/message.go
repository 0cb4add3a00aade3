package riakpb

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"bigset"
)

// Codes of messages. They are on the wire (riak_pb_messages.csv).
const (
	codeError         = 0
	codePingReq       = 1
	codePingResp      = 2
	codeServerInfoReq = 7
	codeServerInfo    = 8
	codeDelReq        = 13
	codeDelResp       = 14
	codeFetchReq      = 80
	codeFetchResp     = 81
	codeUpdateReq     = 82
	codeUpdateResp    = 83
	codeAuthReq       = 253
	codeAuthResp      = 254
	codeStartTLS      = 255
)

// errorGeneral is RIAKC_ERR_GENERAL, the only code of an error that Riak defines.
const errorGeneral = 1

// typeSet is the value SET of DtFetchResp.DataType.
const typeSet = 2

// id names a set in a request.
type id struct{ typ, bucket, key []byte }

// fetchReq is a DtFetchReq. Byte strings point into the message.
type fetchReq struct {
	id
	r, pr     quorum
	timeout   uint32 // milliseconds; 0 means none
	noContext bool   // include_context is false
}

// updateReq is a DtUpdateReq.
type updateReq struct {
	id
	hasKey    bool
	context   []byte
	adds      [][]byte
	removes   [][]byte
	other     string // the operation, if it is not on a set
	hasOp     bool   // the request has an operation on a set
	w, dw, pw quorum
	body      bool // return_body
	timeout   uint32
	noContext bool
}

// delReq is an RpbDelReq.
type delReq struct {
	id
	context []byte // vclock
	w, dw   quorum
	pw      quorum
	timeout uint32
}

// authReq is an RpbAuthReq.
type authReq struct{ user, password []byte }

// errMissing is wrapped by the errors of messages without a required field.
var errMissing = errors.New("a required field is missing")

// field is a field of a message: a number of kind varint, or bytes.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// eachField calls f for every field of a message. It skips fields of kinds that no message here has.
func eachField(message []byte, f func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return parseError(n)
		}
		message = message[n:]
		fd := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			fd.value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			fd.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return parseError(n)
		}
		message = message[n:]
		if err := f(fd); err != nil {
			return err
		}
	}
	return nil
}

// parseError returns the error of a message that is no protobuf.
func parseError(n int) error {
	return fmt.Errorf("the message is cut off or is not protobuf: %w", protowire.ParseError(n))
}

// asBytes stores the bytes of a field.
func (f field) asBytes(to *[]byte) error {
	if f.kind != protowire.BytesType {
		return fmt.Errorf("field %d is of the wrong kind", f.number)
	}
	*to = f.bytes
	return nil
}

// asBool stores the boolean of a field.
func (f field) asBool(to *bool) error {
	if f.kind != protowire.VarintType {
		return fmt.Errorf("field %d is of the wrong kind", f.number)
	}
	*to = f.value != 0
	return nil
}

// asUint stores the number of a field of type uint32.
func (f field) asUint(to *uint32) error {
	if f.kind != protowire.VarintType {
		return fmt.Errorf("field %d is of the wrong kind", f.number)
	}
	*to = uint32(f.value) // protobuf truncates a longer number
	return nil
}

// asQuorum stores a number of replicas.
func (f field) asQuorum(to *quorum) error {
	to.given = true
	return f.asUint(&to.n)
}

func decodeFetch(message []byte) (q fetchReq, err error) {
	context := true
	err = eachField(message, func(f field) error {
		switch f.number {
		case 1:
			return f.asBytes(&q.bucket)
		case 2:
			return f.asBytes(&q.key)
		case 3:
			return f.asBytes(&q.typ)
		case 4:
			return f.asQuorum(&q.r)
		case 5:
			return f.asQuorum(&q.pr)
		case 8:
			return f.asUint(&q.timeout)
		case 11:
			return f.asBool(&context)
		}
		return nil
	})
	q.noContext = !context
	if err == nil && (q.bucket == nil || q.key == nil || q.typ == nil) {
		err = fmt.Errorf("DtFetchReq: %w: bucket, key or type", errMissing)
	}
	return q, err
}

func decodeUpdate(message []byte) (q updateReq, err error) {
	context := true
	err = eachField(message, func(f field) error {
		switch f.number {
		case 1:
			return f.asBytes(&q.bucket)
		case 2:
			q.hasKey = true
			return f.asBytes(&q.key)
		case 3:
			return f.asBytes(&q.typ)
		case 4:
			return f.asBytes(&q.context)
		case 5:
			var op []byte
			if err := f.asBytes(&op); err != nil {
				return err
			}
			return q.decodeOp(op)
		case 6:
			return f.asQuorum(&q.w)
		case 7:
			return f.asQuorum(&q.dw)
		case 8:
			return f.asQuorum(&q.pw)
		case 9:
			return f.asBool(&q.body)
		case 10:
			return f.asUint(&q.timeout)
		case 13:
			return f.asBool(&context)
		}
		return nil
	})
	q.noContext = !context
	if err == nil && (q.bucket == nil || q.typ == nil || !q.hasOp && q.other == "") {
		err = fmt.Errorf("DtUpdateReq: %w: bucket, type or op", errMissing)
	}
	return q, err
}

// decodeOp decodes a DtOp.
func (q *updateReq) decodeOp(op []byte) error {
	return eachField(op, func(f field) error {
		switch f.number {
		case 1:
			q.other = "counter"
		case 3:
			q.other = "map"
		case 4:
			q.other = "hll"
		case 5:
			q.other = "gset"
		case 2:
			var set []byte
			if err := f.asBytes(&set); err != nil {
				return err
			}
			q.hasOp = true
			return q.decodeSetOp(set)
		}
		return nil
	})
}

// decodeSetOp decodes a SetOp.
func (q *updateReq) decodeSetOp(op []byte) error {
	return eachField(op, func(f field) error {
		var element []byte
		if len(q.adds)+len(q.removes) == bigset.BatchOpsMax {
			return refusal(fmt.Sprintf("more than %d elements in one update, which is the most that is written at once", bigset.BatchOpsMax))
		}
		switch f.number {
		case 1:
			if err := f.asBytes(&element); err != nil {
				return err
			}
			q.adds = append(q.adds, element)
		case 2:
			if err := f.asBytes(&element); err != nil {
				return err
			}
			q.removes = append(q.removes, element)
		}
		return nil
	})
}

func decodeDel(message []byte) (q delReq, err error) {
	err = eachField(message, func(f field) error {
		switch f.number {
		case 1:
			return f.asBytes(&q.bucket)
		case 2:
			return f.asBytes(&q.key)
		case 4:
			return f.asBytes(&q.context)
		case 6:
			return f.asQuorum(&q.w)
		case 8:
			return f.asQuorum(&q.pw)
		case 9:
			return f.asQuorum(&q.dw)
		case 10:
			return f.asUint(&q.timeout)
		case 13:
			return f.asBytes(&q.typ)
		}
		return nil
	})
	if err == nil && (q.bucket == nil || q.key == nil) {
		err = fmt.Errorf("RpbDelReq: %w: bucket or key", errMissing)
	}
	if q.typ == nil {
		q.typ = []byte("default") // as in Riak
	}
	return q, err
}

func decodeAuth(message []byte) (q authReq, err error) {
	err = eachField(message, func(f field) error {
		switch f.number {
		case 1:
			return f.asBytes(&q.user)
		case 2:
			return f.asBytes(&q.password)
		}
		return nil
	})
	if err == nil && (q.user == nil || q.password == nil) {
		err = fmt.Errorf("RpbAuthReq: %w: user or password", errMissing)
	}
	return q, err
}

// appendBytes appends a field of bytes.
func appendBytes(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

// appendUint appends a field of a number.
func appendUint(dst []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}

// appendMessage appends a whole message: its length, its code and its body.
func appendMessage(dst []byte, code byte, body ...[]byte) []byte {
	n := 1
	for _, b := range body {
		n += len(b)
	}
	dst = append(dst, byte(n>>24), byte(n>>16), byte(n>>8), byte(n), code)
	for _, b := range body {
		dst = append(dst, b...)
	}
	return dst
}
