#include <lockstep/base/failure.hpp>

#include <exception>
#include <new>
#include <system_error>

namespace lockstep {
namespace {

Failure failure_from(const std::exception& error) {
  Failure failure{.message = error.what()};
  if (const auto* ours = dynamic_cast<const Error*>(&error)) failure.code = ours->exit_code();
  if (const auto* of = dynamic_cast<const RankOfError*>(&error)) {
    failure.rank = of->rank;
    failure.host = of->host;
  } else if (const auto* told = dynamic_cast<const Failure*>(&error)) {
    failure.kind = told->kind;
    failure.rank = told->rank;
    failure.host = told->host;
  }
  return failure;
}

Failure out_of_memory(const std::string& message) {
  return {.message = message, .kind = FailureKind::out_of_memory};
}

}  // namespace

Failure current_failure() {
  try {
    throw;
  } catch (const OutOfMemoryError& error) {
    return out_of_memory(error.what());
  } catch (const std::bad_alloc&) {
    return out_of_memory("out of memory. Use a smaller batch, or more ranks.");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return failure_from(error);
    return out_of_memory(
        "out of memory or processes: a thread could not be started. Look at ulimit -v and -u.");
  } catch (const std::exception& error) {
    return failure_from(error);
  } catch (...) {
    return {.message = "an exception of unknown type"};
  }
}

}  // namespace lockstep
