#include <lockstep/train/run/failures.hpp>

#include <lockstep/io/file.hpp>

namespace lockstep::train {

bool is_foreseen() {
  try {
    throw;
  } catch (const NonFiniteLoss&) {
    return true;
  } catch (const FileError&) {
    return true;
  } catch (...) {
    const Failure failure = current_failure();
    return failure.code != ExitCode::failure || failure.kind == FailureKind::out_of_memory;
  }
}

bool is_non_finite_loss() {
  try {
    throw;
  } catch (const NonFiniteLoss&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace lockstep::train
