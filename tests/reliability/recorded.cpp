// classify, except that each rank records the samples it has trained on: one line per step, with
// their numbers, in the file RECORD.RANK.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/task/classification.hpp>

namespace {

class Recorded : public lockstep::train::Classification {
 public:
  using Classification::Classification;

  lockstep::Variable loss(const lockstep::Variable& output,
                          const lockstep::Batch& batch) const override {
    if (lockstep::grad_enabled()) write(batch);
    return Classification::loss(output, batch);
  }

 private:
  void write(const lockstep::Batch& batch) const {
    if (!out_.is_open()) {
      const auto rank = static_cast<int>(lockstep::rank_identity() >> 32U);
      out_.open(std::string(std::getenv("RECORD")) + "." + std::to_string(rank));
    }
    std::string line;
    for (const auto sample : batch.indices().to_vector<std::int64_t>())
      line += std::to_string(sample) + " ";
    out_ << line << std::endl;
  }

  mutable std::ofstream out_;
};

}  // namespace

int main(int argc, char** argv) {
  return lockstep::train::App("recorded", "classify that writes down its samples",
                              [](lockstep::Deck& deck) { return std::make_unique<Recorded>(deck); })
      .run(argc, argv);
}
