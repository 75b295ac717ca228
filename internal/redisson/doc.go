// Package redisson reads the checkpoints of the Java library redis-streaming as its Redis
// client, Redisson, wrote them with JsonJacksonCodec: JSON in which Jackson names the Java
// class of nearly every value, as a member "@class" of an object and as ["class", value] of
// anything else.
//
// Class names are data here: they tell where a value begins, and nothing is ever made of them.
// What cannot be told for certain to be such a record is an [UnreadableError], not a guess.
package redisson
