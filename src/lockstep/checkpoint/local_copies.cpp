#include <lockstep/checkpoint/local_copies.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/save/node_shares.hpp>
#include <lockstep/checkpoint/save/saving.hpp>
#include <lockstep/comm/agreement.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* local_prefix = "lockstep-local-";

std::string names_of(const std::string& start) { return fmt::format("{}{}-", local_prefix, start); }

template <class Visit>
void for_each_file(const fs::path& folder, const std::string& prefix, const Visit& visit) {
  const auto look = [&](const fs::directory_entry& entry) {
    if (entry.path().filename().string().starts_with(prefix)) visit(entry.path());
  };
  std::error_code ignored;
  for_each_entry(folder, look, ignored);
}

/// Without HDF5's structure, which has time stamps.
std::uint64_t hash_of_contents(const CheckpointFile& file) {
  Manifest contents = file.manifest();
  contents.structure_hash = 0;
  const std::string text = contents.to_text();
  return hash64(text.data(), text.size());
}

/// Whether the name still belongs to the open file.
bool has_its_name(const File& file) {
  struct stat open {
  }, named{};
  return ::fstat(file.descriptor(), &open) == 0 && ::stat(file.path().c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

LocalCopies::LocalCopies(std::shared_ptr<ProcessGroup> ranks, const NodeLayout& nodes,
                         const fs::path& folder, const std::string& start)
    : ranks_(expect_given("LocalCopies", "the group of the ranks", std::move(ranks))),
      shares_(std::make_unique<const NodeShares>(nodes)),
      node_(nodes.node_of(ranks_->rank())) {
  for (std::size_t i = 0; i < generations_.size(); ++i)
    generations_[i].path = folder / fmt::format("{}{}-{}.h5", names_of(start), node_, i);
}

LocalCopies::~LocalCopies() = default;

bool LocalCopies::is_leader() const { return shares_->nodes().is_leader(ranks_->rank()); }

std::int64_t LocalCopies::bytes_of_node(ProcessGroup& ranks, const NodeLayout& nodes,
                                        const StateDict& model, const StateDict& optimizer) {
  return NodeShares(nodes).bytes(plan_state(ranks, model, optimizer), nodes.node_of(ranks.rank()));
}

void LocalCopies::save(const CheckpointContents& contents, NotFinite not_finite) {
  const TraceScope scope("checkpoint", "local copy", nullptr, contents.train.step);
  Generation& target = generations_[next_];
  SavePlan plan = plan_save(*ranks_, target.path, contents);
  share_rest(*ranks_, plan);
  agree(*ranks_, explained(target.path, plan.bytes, [&] { take_to_host(plan); }),
        refuse_with(not_written(target.path)));
  const StagedSave save = stage_save(*ranks_, std::move(plan), not_finite, nullptr);
  try {
    write(target, save);
  } catch (...) {
    target.offsets.clear();
    target.layout.reset();
    throw;
  }
  next_ = 1 - next_;
  // Nothing waits for this: the next save writes the other file.
  if (!target.layout) return;
  const auto finish = [&] { target.layout->finish(target.file, save.hashes); };
  if (const auto failure = failure_of(explained(target.path, save.plan.bytes, finish)))
    throw CheckpointError(not_written(target.path) + ": " + failure->message);
}

void LocalCopies::take_to_host(SavePlan& plan) const {
  const int me = ranks_->rank(), partner = shares_->partner_of(node_);
  std::size_t number = 0;
  for (PlannedDataset& planned : plan.datasets) {
    bool is_read = false;
    for (const Slab& slab : planned.entry.slabs) {
      is_read = is_read || slab.owner == me ||
                shares_->route(planned, slab, number, node_).from == me ||
                shares_->route(planned, slab, number, partner).from == me;
      ++number;
    }
    if (is_read) planned.local = on_host(planned.local);
  }
}

void LocalCopies::write(Generation& target, const StagedSave& save) {
  lay_out(target, save);
  const std::exception_ptr failure = write_shares(target, save.plan);
  const auto end = [&] {
    if (failure) std::rethrow_exception(failure);
  };
  agree(*ranks_, explained(target.path, save.plan.bytes, end),
        refuse_with(not_written(target.path)));
}

void LocalCopies::lay_out(Generation& target, const StagedSave& save) {
  // Shares the data sets' layout if it is new; only then is the file's structure rebuilt.
  const auto on_leader = [&] {
    if (!is_leader()) return std::vector<std::int64_t>();
    std::vector<DatasetEntry> entries = entries_of(save.plan);
    if (target.layout && target.layout->fits(entries) && has_its_name(target.file)) {
      const Header::Block nothing{};
      target.file.write_at(0, nothing.data(), Header::bytes);
      return std::vector<std::int64_t>();
    }
    target.file = File::create(target.path);
    target.layout.emplace(target.file, std::move(entries));
    target.offsets = target.layout->offsets();
    return target.offsets;
  };
  const auto news = agree(*ranks_, explained(target.path, save.plan.bytes, on_leader),
                          refuse_with(not_written(target.path)));
  const auto leader = static_cast<std::size_t>(shares_->nodes().ranks_on(node_).front());
  if (is_leader() || news[leader].empty()) return;
  target.offsets = news[leader];
  target.file = File();
}

/// Messages go on after a failure of this rank's file, which it returns.
std::exception_ptr LocalCopies::write_shares(Generation& target, const SavePlan& plan) {
  std::exception_ptr failure;
  const auto unless_failed = [&](const auto& part) {
    if (failure) return;
    try {
      part();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  unless_failed([&] {
    if (target.file.descriptor() < 0) target.file = File::open_for_writing(target.path);
  });
  const int me = ranks_->rank(), partner = shares_->partner_of(node_);
  std::size_t number = 0;
  for (std::size_t i = 0; i < plan.datasets.size(); ++i) {
    const PlannedDataset& planned = plan.datasets[i];
    const auto element = static_cast<std::int64_t>(size_of(planned.entry.dtype));
    const auto write = [&](const Slab& slab, const Tensor& bytes) {
      unless_failed([&] {
        write_slab(target.file, target.offsets[i], slab,
                   static_cast<const std::byte*>(bytes.data()));
      });
    };
    const auto own_part = [&](const Slab& slab) {
      const Tensor elements = planned.local.reshape({planned.local.numel()});
      const std::int64_t begin = planned.place_on(me, slab).value();
      return elements.slice(begin / element, (begin + slab.bytes) / element);
    };
    std::vector<std::pair<const Slab*, Tensor>> arriving;
    std::vector<Work> works;
    for (const Slab& slab : planned.entry.slabs) {
      const SlabRoute here = shares_->route(planned, slab, number, node_);
      const SlabRoute next = shares_->route(planned, slab, number, partner);
      ++number;
      if (here.writer == me && here.from == me) {
        write(slab, own_part(slab));
      } else if (here.writer == me) {
        arriving.emplace_back(&slab, Tensor::empty({slab.bytes / element}, planned.entry.dtype));
        works.push_back(ranks_->irecv(arriving.back().second, here.from));
      }
      if (next.from == me && next.writer != me)
        works.push_back(ranks_->isend(own_part(slab), next.writer));
    }
    for (Work& work : works) work.wait();
    for (const auto& [slab, bytes] : arriving) write(*slab, bytes);
  }
  return failure;
}

void LocalCopies::close_and_remove() {
  ranks_->close();
  if (!is_leader()) return;
  for (const Generation& generation : generations_) {
    std::error_code ignored;
    fs::remove(generation.path, ignored);
  }
}

std::vector<LocalCopy> list_local_copies(const fs::path& folder, const std::string& start) {
  std::vector<LocalCopy> copies;
  for_each_file(folder, names_of(start), [&](const fs::path& path) {
    try {
      const CheckpointFile file(path);
      copies.push_back({path, file.integer("/train/step"), hash_of_contents(file)});
    } catch (const Error&) {  // its ranks were killed while writing it; the other one is whole
    }
  });
  std::ranges::sort(copies, std::greater<>(), &LocalCopy::step);
  return copies;
}

void remove_local_copies(const fs::path& folder, const std::string& start) noexcept {
  for_each_file(folder, names_of(start), [](const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
  });
}

void remove_old_local_copies(const fs::path& folder) noexcept {
  for_each_file(folder, local_prefix, [](const fs::path& path) {
    std::error_code gone;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, gone);
    if (!gone && age > std::chrono::hours(24)) fs::remove(path, gone);
  });
}

}  // namespace lockstep
