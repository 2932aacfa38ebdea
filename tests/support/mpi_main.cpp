// main() of GoogleTest programs that run under mpiexec. Tests communicate freely; this file does so
// only before the first and after the last one. So ranks that assert differently (or fail a
// different number of assertions) cannot hang in the reporting.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

namespace {

/// How long a rank with failures waits for the others before it reports alone.
constexpr auto patience = std::chrono::seconds(15);

/// Keeps the text of this rank's failures for the report at the end.
class FailureCollector : public testing::EmptyTestEventListener {
 public:
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void OnTestStart(const testing::TestInfo& test) override {
    running_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { running_ = outside; }

  // GoogleTest holds its lock here: calls to it, for example for the test's name, would hang.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    text_ += running_ + "\n  ";
    text_ += result.file_name() ? result.file_name() : "unknown file";
    text_ += ":" + std::to_string(result.line_number()) + "\n";
    text_ += std::string(result.message()) + "\n";
  }

  static constexpr const char* outside = "outside any test";
  std::string running_ = outside;
  std::string text_;
};

void print_failures(int rank, const std::string& text) {
  std::fprintf(stderr, "---- failures on rank %d ----\n%s", rank, text.c_str());
}

/// A rank that failed in the middle of a test has often left its peers waiting in a collective.
/// They will not arrive, and CTest's time-out would hide the reason. So this rank reports and ends
/// the job.
void await_others_or_abort(int rank, const std::string& failures) {
  MPI_Request everybody = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &everybody);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  int arrived = 0;
  while (true) {
    MPI_Test(&everybody, &arrived, MPI_STATUS_IGNORE);
    if (arrived) return;
    if (!failures.empty() && std::chrono::steady_clock::now() > deadline) {
      print_failures(rank, failures);
      std::fprintf(stderr, "rank %d failed and waited in vain for the others to end their tests\n",
                   rank);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Collective, after the last test: rank 0 prints every rank's failures in rank order.
void report(int rank, int size, const std::string& failures) {
  const int length = static_cast<int>(failures.size());
  std::vector<int> lengths(static_cast<std::size_t>(size));
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> offsets(lengths.size());
  for (std::size_t r = 1; r < offsets.size(); ++r) offsets[r] = offsets[r - 1] + lengths[r - 1];
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  MPI_Gatherv(failures.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
              MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank != 0) return;
  for (int r = 0; r < size; ++r) {
    const auto index = static_cast<std::size_t>(r);
    if (lengths[index] == 0) continue;
    print_failures(r, all.substr(static_cast<std::size_t>(offsets[index]),
                                 static_cast<std::size_t>(lengths[index])));
  }
}

int run_tests(int argc, char** argv) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  testing::InitGoogleTest(&argc, argv);

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    testing::GTEST_FLAG(output) = "";  // one XML file per run, not per rank
  }
  auto* collector = new FailureCollector;  // owned by GoogleTest
  listeners.Append(collector);

  int failed = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0 &&
      !testing::GTEST_FLAG(list_tests)) {
    std::fprintf(stderr, "rank %d: no test ran\n", rank);
    failed = 1;
  }
  await_others_or_abort(rank, collector->text());
  report(rank, size, collector->text());
  int failed_anywhere = 0;
  MPI_Allreduce(&failed, &failed_anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return failed_anywhere;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  // As MpiSession does; without it, groups receive messages in another way.
  if (!std::getenv("LOCKSTEP_TEST_ERRORS_ARE_FATAL")) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  int exit_code = 1;
  try {
    exit_code = run_tests(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the test program could not start: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return exit_code;
}
