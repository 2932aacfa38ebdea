#include <lockstep/train/agreement.hpp>

#include <algorithm>
#include <new>
#include <vector>

#include <lockstep/base/host.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep::train {

std::string rank_prefix(const ProcessGroup& group) {
  if (group.size() == 1) return "";
  return "rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + " (" +
         host_name() + "): ";
}

Failure current_failure() {
  try {
    throw;
  } catch (const NonFiniteLoss& error) {
    return {error.what(), error.exit_code(), true};
  } catch (const Error& error) {
    return {error.what(), error.exit_code(), error.exit_code() != ExitCode::failure};
  } catch (const std::bad_alloc&) {
    return {"out of memory. Use a smaller batch, or more ranks.", ExitCode::failure, true};
  } catch (const std::exception& error) {
    return {error.what(), ExitCode::failure};
  } catch (...) {
    return {"an exception of unknown type", ExitCode::failure};
  }
}

void agree(ProcessGroup& group, const std::function<void()>& part) {
  // One byte of exit code (0: fine), the host's prefix, a separator, the message.
  std::string verdict(1, '\0');
  try {
    part();
  } catch (...) {
    const Failure failure = current_failure();
    verdict[0] = static_cast<char>(failure.code);
    verdict += rank_prefix(group) + '\n' + failure.message;
  }
  const auto failed = [](const std::string& v) { return v[0] != '\0'; };
  const double failures = all_reduce_scalar(group, failed(verdict) ? 1.0 : 0.0, ReduceOp::sum);
  if (failures == 0.0) return;

  const std::vector<std::string> verdicts = all_gather_object(group, verdict);
  const std::string& first = *std::ranges::find_if(verdicts, failed);
  const auto message_of = [](const std::string& v) { return v.substr(v.find('\n') + 1); };
  const bool alike = std::ranges::all_of(verdicts, [&](const std::string& v) {
    return failed(v) && message_of(v) == message_of(first);
  });
  const std::string prefix = alike ? "" : first.substr(1, first.find('\n') - 1);
  throw AgreedError(prefix + message_of(first), static_cast<ExitCode>(first[0]));
}

}  // namespace lockstep::train
