#include <lockstep/train/run/run_local_copies.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>
#include <utility>

#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/random_bits.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/train/run/failures.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

void remove_note(const fs::path& note) {
  std::error_code ignored;
  fs::remove(note, ignored);
}

/// Contents of the last start's note. `owner`: the run the copies belong to, identified by the
/// inode of its checkpoint folder, since a copied run folder has the note too.
struct Note {
  std::string start;
  fs::path folder;
  std::string owner;
};

std::string number_of(const fs::path& folder) {
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 ? std::to_string(status.st_ino) : "";
}

/// The note's text; empty if there is none.
std::string text_of(const fs::path& path) {
  constexpr std::int64_t most_bytes = 1 << 16U;  // a name, a folder and a number
  return read_small_file_or_nothing(path, most_bytes);
}

/// "START FOLDER" and, on a second line, the owner.
std::string text_of(const Note& note) {
  return fmt::format("{} {}\n{}\n", note.start, note.folder.string(), note.owner);
}

std::optional<Note> note_that_says(const std::string& text) {
  const auto space = text.find(' '), end = text.rfind('\n', text.size() - 2);
  if (space == std::string::npos || end == std::string::npos || end < space) return {};
  return Note{.start = text.substr(0, space),
              .folder = text.substr(space + 1, end - space - 1),
              .owner = text.substr(end + 1, text.size() - end - 2)};
}

/// Collective.
std::optional<Note> read_note(ProcessGroup& group, const fs::path& path) {
  return note_that_says(agree(group, 0, [&] { return text_of(path); }));
}

/// The machines of the group, cut into the nodes that are pretended.
NodeLayout nodes_of(ProcessGroup& group, const std::vector<std::int64_t>& pretended_nodes) {
  std::int64_t node = 0, first_of_next = 0;
  for (const std::int64_t ranks : pretended_nodes) {
    first_of_next += ranks;
    if (group.rank() < first_of_next) break;
    ++node;
  }
  return NodeLayout(all_gather_object(group, fmt::format("{}/{}", host_name(), node)));
}

/// The reason why a node cannot hold two copies; empty if it can.
std::string why_no_room(const fs::path& folder, std::int64_t bytes) {
  constexpr std::int64_t structure = 1 << 20;
  try {
    std::string why = why_not_writable(folder);
    if (!why.empty()) return why;
    const std::int64_t needed = 2 * (bytes + structure), free = available_bytes(folder);
    if (needed <= free) return {};
    return fmt::format("{} are needed in {}, but {} are free", format_bytes(needed),
                       folder.string(), format_bytes(free));
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

RunLocalCopies::RunLocalCopies(ProcessGroup& group, const CheckpointOptions& options,
                               const std::vector<std::int64_t>& pretended_nodes,
                               const fs::path& checkpoints, const CheckpointContents& now)
    : group_(group), every_(options.local_steps), note_(note_of_local_copies(checkpoints)) {
  const bool is_first = group_.rank() == 0;
  if (is_first) remove_unfinished_files_of(note_);
  if (const auto note = read_note(group_, note_)) {
    if (is_first) remove_note(note_);
    const bool mine = agree(group_, 0, [&] { return number_of(checkpoints) == note->owner; });
    if (mine) remove_local_copies(note->folder, note->start);
  }
  if (every_ == 0) return;
  const fs::path folder = fs::absolute(options.local_dir);
  const NodeLayout nodes = nodes_of(group_, pretended_nodes);
  const std::int64_t bytes = LocalCopies::bytes_of_node(group_, nodes, now.model, now.optimizer);
  const auto look = [&] {
    if (!nodes.is_leader(group_.rank())) return std::string();
    remove_old_local_copies(folder);
    return why_no_room(folder, bytes);
  };
  for (const std::string& of_rank : agree(group_, look)) {
    if (of_rank.empty()) continue;
    if (is_first) {
      log(LogLevel::warning, fmt::format("no copies of the state are kept in the nodes' memory "
                                         "(checkpoint.local_steps): {}",
                                         of_rank));
    }
    return;
  }
  const std::string start = agree(group_, 0, [&] {
    std::string name = fmt::format("{:016x}", random_bits());  // no other start has it
    write_atomically(note_, text_of({name, folder, number_of(checkpoints)}));
    return name;
  });
  copies_ = std::make_unique<LocalCopies>(group_.split(0, group_.rank()), nodes, folder, start);
}

void RunLocalCopies::save(const CheckpointContents& contents, NotFinite not_finite) {
  try {
    copies_->save(contents, not_finite);
  } catch (const NotFiniteError&) {  // the run reports it itself, and the earlier copies are finite
  } catch (const CheckpointError& error) {
    if (std::exchange(last_failure_, error.what()) == error.what()) return;
    log(LogLevel::warning, fmt::format("{} The run goes on.", error.what()));
  }
}

void RunLocalCopies::end() {
  if (!copies_) return;
  if (group_.rank() == 0) remove_note(note_);
  copies_->close_and_remove();
}

fs::path note_of_local_copies(const fs::path& checkpoints) { return checkpoints / "local"; }

bool has_local_copies_here(const fs::path& checkpoints) {
  const auto note = note_that_says(text_of(note_of_local_copies(checkpoints)));
  return note && !list_local_copies(note->folder, note->start).empty();
}

std::optional<fs::path> newest_of_both_levels(ProcessGroup& group, const fs::path& checkpoints,
                                              const std::optional<fs::path>& newest,
                                              const ExpectFits& expect_fits) {
  const auto note = read_note(group, note_of_local_copies(checkpoints));
  if (!note) return newest;
  const std::int64_t step = newest ? step_of(*newest).value_or(-1) : -1;
  auto copy =
      bring_back_local_copy(group, note->folder, note->start, checkpoints, step, expect_fits);
  if (!copy) {
    const auto here = static_cast<double>(list_local_copies(note->folder, note->start).size());
    if (all_reduce_scalar(group, here, ReduceOp::max) == 0.0 && group.rank() == 0) {
      log(LogLevel::warning,
          fmt::format(
              "the copies of the run's state in the memory of its nodes ({}) are gone: its nodes "
              "are others, were restarted, the copies were removed, or none was made yet. The run "
              "resumes from {}.",
              note->folder.string(), newest ? newest->filename().string() : "its beginning"));
    }
    return newest;
  }
  if (group.rank() == 0) {
    log(LogLevel::info, fmt::format("a copy of step {} in a node's memory is newer than the run "
                                    "folder's checkpoints, and is now {}",
                                    step_of(*copy).value_or(0), copy->string()));
  }
  return copy;
}

}  // namespace lockstep::train
