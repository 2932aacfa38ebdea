// Methods that are virtual, inherited, or called on nothing.
#include <memory>
#include <string>

#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::RRef;

// The first virtual function of each: pointers to them have the same bytes.
struct Cat {
  virtual ~Cat() = default;
  virtual std::string says(int times) const { return "miaow " + std::to_string(times); }
};
struct Dog {
  virtual ~Dog() = default;
  virtual std::string says(int times) const { return "wow " + std::to_string(times); }
};
struct Counted {
  int count = 0;
  int add(int n) { return count += n; }
};
/// Its base classes are not where it begins.
struct Puppy : Dog, Counted {
  std::string says(int times) const override { return "squeak " + std::to_string(times); }
};
struct Trained : virtual Counted, Dog {
  int tricks() { return 10 + count; }
};
std::unique_ptr<Cat> make_cat() { return std::make_unique<Cat>(); }
std::unique_ptr<Dog> make_dog() { return std::make_unique<Dog>(); }
std::unique_ptr<Dog> make_dog_that_is_a_puppy() { return std::make_unique<Puppy>(); }
std::unique_ptr<Puppy> make_puppy() { return std::make_unique<Puppy>(); }
std::unique_ptr<Trained> make_trained() { return std::make_unique<Trained>(); }
std::unique_ptr<Cat> no_cat() { return nullptr; }
std::shared_ptr<std::string> no_text() { return nullptr; }
LOCKSTEP_RPC(make_cat);
LOCKSTEP_RPC(make_dog);
LOCKSTEP_RPC(make_dog_that_is_a_puppy);
LOCKSTEP_RPC(make_puppy);
LOCKSTEP_RPC(make_trained);
LOCKSTEP_RPC(no_cat);
LOCKSTEP_RPC(no_text);
LOCKSTEP_RPC(Cat::says);
LOCKSTEP_RPC(Dog::says);
LOCKSTEP_RPC(Counted::add);
LOCKSTEP_RPC(Trained::tricks);

TEST(Methods, ThatAreVirtualAreDispatchedByClass) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    EXPECT_EQ(rpc::remote(to, make_cat).rpc_sync(&Cat::says, 2), "miaow 2");
    EXPECT_EQ(rpc::remote(to, make_dog).rpc_sync(&Dog::says, 3), "wow 3");
    EXPECT_EQ(rpc::remote(to, make_dog_that_is_a_puppy).rpc_sync(&Dog::says, 1), "squeak 1");
  });
}

TEST(Methods, OfBaseClassesMayBeCalledOnDerivedObjects) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    const RRef<Puppy> puppy = rpc::remote(to, make_puppy);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(puppy.rpc_sync(&Dog::says, i), "squeak " + std::to_string(i));
      EXPECT_EQ(puppy.rpc_sync(&Puppy::add, 2), 2 * i);
    }
    const RRef<Trained> trained = rpc::remote(to, make_trained);
    EXPECT_EQ(trained.rpc_async(&Trained::add, 5).wait(), 5);
    EXPECT_EQ(trained.rpc_sync(&Trained::tricks), 15);
    EXPECT_EQ(trained.rpc_sync(&Trained::says, 1), "wow 1");
  });
}

TEST(Methods, CalledByRemoteLeaveTheirResultThere) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    RRef<Puppy> puppy = rpc::remote(to, make_puppy);
    const RRef<std::string> said = puppy.remote(&Dog::says, 7);
    const RRef<int> count = puppy.remote(&Puppy::add, 4);
    puppy = {};  // it lives until it has been called
    EXPECT_EQ(said.owner().id, to);
    EXPECT_EQ(said.to_here(), "squeak 7");
    EXPECT_EQ(count.to_here(), 4);
  });
}

TEST(Methods, OfANullPointerAreRefused) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    const auto expect_refused = [](const std::string& said) {
      EXPECT_NE(said.find("the function returned a null pointer"), std::string::npos) << said;
    };
    const RRef<Cat> cat = rpc::remote(to, no_cat);
    expect_refused(test::thrown_by<rpc::RemoteError>([&] { cat.rpc_sync(&Cat::says, 1); }));
    const auto text = rpc::remote(to, no_text);
    expect_refused(test::thrown_by<rpc::RemoteError>([&] { static_cast<void>(text.to_here()); }));
    const auto own = rpc::remote(group.rank(), no_cat);
    expect_refused(test::thrown_by<Error>([&] { static_cast<void>(own.local_value()); }));
    EXPECT_THROW(RRef<Cat>(std::shared_ptr<Cat>()), InputError);
    EXPECT_THROW(RRef<Cat>(std::unique_ptr<Cat>()), InputError);
    EXPECT_THROW(cat.rpc_sync(static_cast<std::string (Cat::*)(int) const>(nullptr), 1),
                 InputError);
    EXPECT_THROW(rpc::rpc_sync(to, static_cast<int (*)(int)>(nullptr), 1), InputError);
  });
}

}  // namespace
}  // namespace lockstep
