#pragma once
#include <cstddef>
#include <cstdint>

// The bytes of a flight recorder's ring file: a Header, group_slots Groups, record_slots Records.
// docs/reference/flight_recorder.md describes them for other programs. Little-endian, as the
// machine that wrote it. Every change of a struct raises `version`, except a field in unused bytes
// where 0 keeps its meaning.
namespace lockstep::flight {

inline constexpr char magic[8] = {'L', 'S', 'F', 'L', 'I', 'G', 'H', 'T'};
inline constexpr std::uint32_t version = 3;
inline constexpr std::uint32_t group_slots = 64;
inline constexpr std::uint32_t record_slots = 1024;
inline constexpr int max_dims = 8;

/// The beginning of a ring file.
struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes, group_bytes, record_bytes;  ///< sizes of the structs
  std::uint32_t group_slots, record_slots;
  std::int32_t rank, size;  ///< in MPI_COMM_WORLD
  std::int32_t pid;
  std::uint32_t reserved;
  std::uint64_t pid_start;  ///< field 22 of /proc/PID/stat: tells a process from a later one of its
                            ///< number
  std::uint64_t job;        ///< the same on all ranks
  // One moment on both clocks: CLOCK_MONOTONIC, which records use, and the time of day.
  std::int64_t monotonic_ns, wall_ns;
  std::int64_t observed_ns;  ///< time of day when the process was looked at for this copy; 0: never
  char host[64];
  std::uint8_t observed;      ///< the process's state then: ProcessState
  std::uint8_t failure_kind;  ///< of the last words: FailureKind
  std::uint8_t unused[62];
  char last_words[800];  ///< the failure that this rank ended with; empty if none
  std::uint64_t next;  ///< records started so far: record n (from 1) is in slot n mod record_slots
};

/// An open or closed group of the process.
struct Group {
  std::uint64_t number;  ///< the same on all members; groups that share a member differ in it
  std::uint64_t entered, completed;  ///< number of the newest collective of each kind
  std::uint32_t state;               ///< 0 unused, 1 open, 2 closed
  std::int32_t size;
  char members[208];  ///< their ranks in MPI_COMM_WORLD, in group order: "0-3,8"; "a-b/s": step s
  char name[16];      ///< ProcessGroup::name(), cut if longer
};

enum class State : std::uint8_t {
  entered = 1,    ///< started here
  agreed = 2,     ///< known to this rank to have been entered, with the same call, by all ranks
  completed = 3,  ///< seen over by this rank
};

/// One operation.
struct Record {
  std::uint64_t ticket;  ///< which record this is; 0 while it is being written
  std::uint64_t sequence, fingerprint;
  std::uint64_t bytes;
  std::int64_t entered_ns, completed_ns;  ///< CLOCK_MONOTONIC
  std::int64_t extents[max_dims];
  std::uint32_t group;                 ///< slot of the table of groups
  std::int32_t root, tag;              ///< root, or the peer of a message: ranks of the group
  std::int32_t label_number;           ///< -1: none
  std::uint8_t kind, op, dtype, dims;  ///< Operation::Kind, ReduceOp, DType
  std::uint8_t has_tensor;             ///< 0 or 1
  State state;
  char label[26];
};

static_assert(sizeof(Header) == 1024 && sizeof(Group) == 256 && sizeof(Record) == 160);

inline constexpr std::size_t file_bytes =
    sizeof(Header) + group_slots * sizeof(Group) + record_slots * sizeof(Record);

}  // namespace lockstep::flight
