#include <lockstep/train/agreement.hpp>

#include <new>
#include <system_error>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/io/file.hpp>

namespace lockstep::train {

std::string rank_prefix(int rank, int size, const std::string& host) {
  if (size == 1) return "";
  return "rank " + std::to_string(rank) + " of " + std::to_string(size) + " (" + host + "): ";
}

std::string rank_prefix(const ProcessGroup& group) {
  return rank_prefix(group.rank(), group.size(), host_name());
}

Failure current_failure() {
  try {
    throw;
  } catch (const NonFiniteLoss& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const FileError& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const Error& error) {
    return {error.what(), error.exit_code(), error.exit_code() != ExitCode::failure};
  } catch (const std::bad_alloc&) {
    return {"out of memory. Use a smaller batch, or more ranks.", ExitCode::failure, true};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return {error.what()};
    return {"out of memory or processes: a thread could not be started. Look at ulimit -v and -u.",
            ExitCode::failure, true};
  } catch (const std::exception& error) {
    return {error.what(), ExitCode::failure};
  } catch (...) {
    return {"an exception of unknown type", ExitCode::failure};
  }
}

void agree(ProcessGroup& group, const std::function<void()>& part) {
  Failure mine{.message = ""};
  try {
    part();
  } catch (...) {
    mine = current_failure();
    if (mine.message.empty()) mine.message = "an error without a message";
  }
  const auto failure = first_failure(group, mine.message, mine.code);
  if (!failure) return;
  const std::string who =
      failure->everywhere ? "" : rank_prefix(failure->rank, group.size(), failure->host);
  throw AgreedError(who + failure->message, failure->code);
}

}  // namespace lockstep::train
