#include <lockstep/rpc/function.hpp>

#include <fmt/format.h>

#include <mutex>

#include <lockstep/base/hash.hpp>

namespace lockstep::rpc {
namespace {

/// Two hash tables that only grow: readers need no lock.
struct Functions {
  static constexpr std::size_t buckets = 512;
  std::array<std::atomic<Function*>, buckets> by_name{}, by_pointer{};
  std::mutex mutex;  // held to add a function
  std::string clash;

  // Registration happens before main(), in any order.
  static Functions& all() {
    static auto* functions = new Functions;
    return *functions;
  }
};

std::size_t bucket_of(const FunctionPointer& pointer) {
  std::uint64_t first = 0;
  std::memcpy(&first, pointer.bytes.data(), sizeof(first));
  return (first * 0x9E3779B97F4A7C15U >> 32U) % Functions::buckets;
}

}  // namespace

std::uint64_t hash_of_name(const char* name) noexcept { return hash64(name, std::strlen(name)); }

void add_function(Function& function) {
  Functions& functions = Functions::all();
  const std::lock_guard lock(functions.mutex);
  function.name_hash = hash_of_name(function.name);
  function.signature = hash_of_name(function.signature_text);
  if (const Function* other = find_function(function.name_hash)) {
    if (!(other->pointer == function.pointer)) {
      functions.clash = fmt::format(
          "two functions are registered as \"{}\": give one of them another name with "
          "LOCKSTEP_RPC_AS(\"name\", function)",
          function.name);
    }
    return;
  }
  auto& by_name = functions.by_name[function.name_hash % Functions::buckets];
  function.next_by_name = by_name.load(std::memory_order_relaxed);
  by_name.store(&function, std::memory_order_release);
  auto& by_pointer = functions.by_pointer[bucket_of(function.pointer)];
  function.next_by_pointer = by_pointer.load(std::memory_order_relaxed);
  by_pointer.store(&function, std::memory_order_release);
}

Function* find_function(const FunctionPointer& pointer) noexcept {
  auto& bucket = Functions::all().by_pointer[bucket_of(pointer)];
  Function* found = bucket.load(std::memory_order_acquire);
  while (found && !(found->pointer == pointer)) found = found->next_by_pointer;
  return found;
}

Function* find_function(std::uint64_t name_hash) noexcept {
  auto& bucket = Functions::all().by_name[name_hash % Functions::buckets];
  Function* found = bucket.load(std::memory_order_acquire);
  while (found && found->name_hash != name_hash) found = found->next_by_name;
  return found;
}

void throw_unregistered() {
  throw InputError(
      "a remote call names a function that is not registered: write LOCKSTEP_RPC(function) next to "
      "its definition, in every program of the job");
}

std::string registered_twice() {
  Functions& functions = Functions::all();
  const std::lock_guard lock(functions.mutex);
  return functions.clash;
}

}  // namespace lockstep::rpc
