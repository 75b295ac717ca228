package redisson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/redisson"
)

func TestAValueComesOutAsPlainJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typed, plain string }{
		"an int":                           {`1000`, `1000`},
		"a double":                         {`1.0`, `1.0`},
		"a boolean":                        {`true`, `true`},
		"a string with escapes":            {`"a\"\\\u00e9/"`, `"a\"\\\u00e9/"`},
		"null":                             {`null`, `null`},
		"a long":                           {`["java.lang.Long",11]`, `11`},
		"a long beyond 2^53":               {`["java.lang.Long",9007199254740993]`, `9007199254740993`},
		"the lowest long":                  {`["java.lang.Long",-9223372036854775808]`, `-9223372036854775808`},
		"a float":                          {`["java.lang.Float",1.25]`, `1.25`},
		"a float that is no number":        {`["java.lang.Float","NaN"]`, `"NaN"`},
		"a short":                          {`["java.lang.Short",7]`, `7`},
		"a character":                      {`["java.lang.Character","x"]`, `"x"`},
		"a BigInteger":                     {`["java.math.BigInteger",123456789012345678901234567890]`, `123456789012345678901234567890`},
		"a BigDecimal keeps its scale":     {`["java.math.BigDecimal",1.500]`, `1.500`},
		"bytes":                            {`["[B","AQID"]`, `"AQID"`},
		"no bytes":                         {`["[B",""]`, `""`},
		"a date":                           {`["java.util.Date",1700000000000]`, `1700000000000`},
		"a timestamp of SQL":               {`["java.sql.Timestamp",1700000000000]`, `1700000000000`},
		"a UUID":                           {`["java.util.UUID","6ba7b810-9dad-11d1-80b4-00c04fd430c8"]`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`},
		"an enum":                          {`["com.acme.Color","RED"]`, `"RED"`},
		"an enum without a package":        {`["Color","RED"]`, `"RED"`},
		"an AtomicLong":                    {`["java.util.concurrent.atomic.AtomicLong",5]`, `5`},
		"a map":                            {`{"@class":"java.util.HashMap","p0":["java.lang.Long",11]}`, `{"p0":11}`},
		"an empty map":                     {`{"@class":"java.util.HashMap"}`, `{}`},
		"a map with int keys":              {`{"@class":"java.util.HashMap","0":"5-0","3":["java.lang.Long",1]}`, `{"0":"5-0","3":1}`},
		"a map with an empty key":          {`{"@class":"java.util.TreeMap","":1}`, `{"":1}`},
		"an EnumMap":                       {`{"@class":"java.util.EnumMap<com.acme.Color,java.lang.Object>","RED":["java.lang.Long",1]}`, `{"RED":1}`},
		"maps in maps":                     {`{"@class":"java.util.HashMap","a":{"@class":"java.util.LinkedHashMap","b":{"@class":"java.util.TreeMap","c":["java.lang.Long",1]}}}`, `{"a":{"b":{"c":1}}}`},
		"a list":                           {`["java.util.ArrayList",["x",2,["java.lang.Long",3]]]`, `["x",2,3]`},
		"an empty list":                    {`["java.util.ArrayList",[]]`, `[]`},
		"a list of one string":             {`["java.util.ArrayList",["java.lang.Long"]]`, `["java.lang.Long"]`},
		"a list that looks like a pair":    {`["java.util.ArrayList",["java.lang.Long",5]]`, `["java.lang.Long",5]`},
		"a list with a list in it":         {`["java.util.ArrayList",[["java.util.ArrayList",[["java.lang.Long",1]]],["java.util.ArrayList",[]]]]`, `[[1],[]]`},
		"a list of maps":                   {`["java.util.ArrayList",[{"@class":"java.util.HashMap","a":1},{"@class":"java.util.HashMap"}]]`, `[{"a":1},{}]`},
		"an unmodifiable set":              {`["java.util.Collections$UnmodifiableSet",["java.util.HashSet","b"]]`, `["java.util.HashSet","b"]`},
		"an EnumSet":                       {`["java.util.EnumSet<com.acme.Color>",["RED","GREEN"]]`, `["RED","GREEN"]`},
		"an array of strings":              {`["[Ljava.lang.String;",["com.acme.Color","b"]]`, `["com.acme.Color","b"]`},
		"an array of longs":                {`["[J",[1,9007199254740993]]`, `[1,9007199254740993]`},
		"an array of objects":              {`["[Ljava.lang.Object;",["a",["java.lang.Long",1]]]`, `["a",1]`},
		"an array of arrays of strings":    {`["[[Ljava.lang.String;",[["com.acme.Color","b"],["c"],[]]]`, `[["com.acme.Color","b"],["c"],[]]`},
		"an array of arrays of ints":       {`["[[I",[[1,2],[3]]]`, `[[1,2],[3]]`},
		"an array of arrays of objects":    {`["[[Ljava.lang.Object;",[["[Ljava.lang.Object;",[1,["java.lang.Long",2]]]]]`, `[[1,2]]`},
		"an object":                        {`{"@class":"com.acme.Gear","count":7,"name":"gear","total":["java.lang.Long",9]}`, `{"count":7,"name":"gear","total":9}`},
		"an array of strings in an object": {`{"@class":"com.acme.Route","hosts":["example.com","backup.example.org"]}`, `{"hosts":["example.com","backup.example.org"]}`},
		"three strings in an object":       {`{"@class":"com.acme.Route","names":["com.acme.Color","b","c"]}`, `{"names":["com.acme.Color","b","c"]}`},
		"an enum in an object":             {`{"@class":"com.acme.Car","color":["com.acme.Color$Dark","RED"]}`, `{"color":"RED"}`},
		"a list in an object":              {`{"@class":"com.acme.Car","wheels":["java.util.ArrayList",["a","b"]]}`, `{"wheels":["a","b"]}`},
		"a map of arrays in an object":     {`{"@class":"com.acme.Car","m":{"@class":"java.util.HashMap","k":["a","b"]}}`, `{"m":{"k":["a","b"]}}`},
		"an object of a final class":       {`["[Lcom.acme.Point;",[{"x":1},{"x":2}]]`, `[{"x":1},{"x":2}]`},
		"a member @class that comes later": {`{"@class":"java.util.HashMap","a":{"b":1,"@class":"mine"}}`, `{"a":{"b":1,"@class":"mine"}}`},
		"a member @class that is no name":  {`{"@class":5}`, `{"@class":5}`},
		"white space":                      {" [ \"java.lang.Long\" ,\n 11 ] ", `11`},
	} {
		got, err := redisson.Plain([]byte(c.typed))
		if err != nil || string(got) != c.plain {
			t.Errorf("%s: %s became %s, %v; want %s", name, c.typed, got, err, c.plain)
		}
	}
}

func TestWhatTheCodecDoesNotWriteIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		typed string
		code  redisson.Code
	}{
		"a key twice, as a key named @class makes it": {`{"@class":"java.util.HashMap","@class":"mine"}`, redisson.InvalidJSON},
		"a text that is cut off":                      {`["java.lang.Long",`, redisson.InvalidJSON},
		"a lone surrogate":                            {`"\ud800"`, redisson.InvalidJSON},
		"bytes that are not UTF-8":                    {"\"\xff\"", redisson.InvalidJSON},
		"more behind the end":                         {`1 2`, redisson.InvalidJSON},
		"nothing":                                     {``, redisson.InvalidJSON},
		"a pair of three":                             {`["java.util.ArrayList",[1],2]`, redisson.UnexpectedShape},
		"too deep":                                    {strings.Repeat(`["java.util.ArrayList",[`, 600) + strings.Repeat(`]]`, 600), redisson.InvalidJSON},
	} {
		got, err := redisson.Plain([]byte(c.typed))
		refused, is := errors.AsType[*redisson.UnreadableError](err)
		if !is || refused.Code != c.code {
			t.Errorf("%s: %.60s became %s, %v; want the code %s", name, c.typed, got, err, c.code)
		}
	}
}
