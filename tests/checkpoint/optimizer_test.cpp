// A file holds the optimizer's state for continuing with the same bits, and is read back, also into
// the optimizer's own memory.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <checkpoint/sample.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/optim/adam.hpp>

namespace lockstep {
namespace {

std::vector<nn::NamedParameter> two_parameters() {
  return {{"w", Variable(test::pattern({3}, 1), true)},
          {"b", Variable(test::pattern({2}, 2), true)}};
}

void step(optim::Optimizer& optimizer) {
  for (const auto& [name, variable] : optimizer.parameters()) {
    variable.grad_buffer().fill(0.25);
    variable.mark_grad_present();
  }
  optimizer.step();
}

TEST(OptimizerInACheckpoint, GoesOnWithTheOptionsOfItsGroups) {
  FakeGroup group(1, 0);
  const auto path = test::scratch("optimizer.h5");
  optim::AdamW saved(two_parameters(), {.lr = 0.1},
                     {{.pattern = "b", .weight_decay = 0.0, .lr = 0.5}});
  step(saved);
  saved.set_lr(0.05, [](double lr) { return lr * lr; });
  saved.set_momentum(0.75);
  CheckpointContents contents;
  contents.optimizer = saved.state_dict();
  contents.optimizer.insert_all("", saved.param_groups());
  for (const auto& [name, variable] : saved.parameters())
    contents.model.insert(name, variable.data());
  static_cast<void>(CheckpointWriter().save(group, path, contents));
  step(saved);

  for (const bool in_place : {false, true}) {
    optim::AdamW resumed(two_parameters(), {.lr = 7.0},
                         {{.pattern = "b", .lr_factor = 3.0, .weight_decay = 0.9}});
    StateDict model;
    for (const auto& [name, variable] : resumed.parameters()) model.insert(name, variable.data());
    const auto got = in_place ? load_checkpoint_in_place(group, path, model, resumed.state_dict())
                              : load_checkpoint(group, path);
    copy_state(got.model, model);
    resumed.load_state_dict(got.optimizer);
    step(resumed);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(test::same_bits(resumed.parameters()[i].variable.data(),
                                  saved.parameters()[i].variable.data()))
          << resumed.parameters()[i].name << (in_place ? ", in place" : "");
    }
  }
}

}  // namespace
}  // namespace lockstep
