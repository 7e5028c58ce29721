"""The switches are checked by name and value, and read from a mapping, YAML text or a file."""

import pytest

from jmars.config import Config
from jmars.errors import SettingError
from jmars.optimize import compile_graph, passes
from jmars.switches import SWITCHES, TASK_DEFAULTS, checked, load_settings, with_extra
from jmars.tensor.tensor_graph import TensorGraph

SEED = """\
task:
  default_config:
    optimize_tileable_graph: true
    optimize_chunk_graph: true
    fuse_enabled: true
"""


def test_the_defaults_are_allowed():
    assert checked(TASK_DEFAULTS) == TASK_DEFAULTS == Config().task


@pytest.mark.parametrize("name", SWITCHES)
def test_what_a_switch_cannot_be_is_refused_and_what_it_can_be_is_named(name):
    assert all(checked({name: value}) == {name: value} for value in SWITCHES[name])
    for wrong in ("sideways", None, 17, 0.0, [True]):
        with pytest.raises(SettingError, match=f"{name} cannot be .*; choose one of"):
            checked({name: wrong})


def test_an_unknown_switch_is_refused():
    with pytest.raises(SettingError, match=r"has no 'fuze'; it has .*fuse_enabled"):
        Config().load({"task": {"default_config": {"fuze": True}}})


@pytest.mark.parametrize("text", [SEED, SEED.replace("  ", "")], ids=["as meant", "as the seed's text stands"])
def test_yaml_text_and_files_load(text, tmp_path):
    expected = {"optimize_tileable_graph": True, "optimize_chunk_graph": True, "fuse_enabled": True}
    (tmp_path / "settings.yml").write_text(text)
    for source in (text, tmp_path / "settings.yml", str(tmp_path / "settings.yml")):
        assert load_settings(source) == expected


def test_settings_without_switches_change_nothing():
    assert load_settings({}) == load_settings({"task": {}}) == load_settings("scheduling:\n  autoscale: 1\n") == {}


@pytest.mark.parametrize("text", ["task: [1, 2]", "- a\n- b\n", "a: b: c\n", "task:\n  default_config: 7\n"])
def test_what_is_shaped_otherwise_is_refused(text):
    with pytest.raises(SettingError):
        load_settings(text)


def test_a_wrong_switch_is_refused_where_it_is_set_and_where_it_is_used():
    config = Config()
    with pytest.raises(SettingError), config.using(task=config.task | {"fuse": "rgion"}):
        pass
    with pytest.raises(SettingError, match="no 'fues'"):
        config.task["fues"] = "chain"
    with pytest.raises(SettingError, match="'chian'"):
        config.task.update(order="level", fuse="chian")
    assert config.task == TASK_DEFAULTS == Config().task
    config.task["fuse"] = "chain"
    assert config.task == TASK_DEFAULTS | {"fuse": "chain"} != Config().task
    with pytest.raises(SettingError):
        compile_graph(TensorGraph(), {"fuse": "rgion", "combine_size": 4})


def test_loading_takes_all_or_nothing():
    config = Config()
    with pytest.raises(SettingError):
        config.load({"task": {"default_config": {"fuse_enabled": False, "fuse": "wrongly"}}})
    assert config.task == TASK_DEFAULTS


def test_what_a_submission_brings_goes_before_the_rest():
    assert with_extra({"fuse": "chain"}, {"fuse": "color"}) == {"fuse": "color"}
    assert with_extra({"fuse_enabled": True}, None, fuse_enabled=False) == {"fuse_enabled": False}
    assert with_extra({}, {"fuse_enabled": True}, fuse_enabled=False) == {"fuse_enabled": True}
    with pytest.raises(SettingError):
        with_extra({}, {"fuse": 3})


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_seconds_of_the_environment_that_are_none_are_refused(text, monkeypatch):
    monkeypatch.setenv("JMARS_LOCAL_SECONDS", text)
    with pytest.raises(SettingError, match="JMARS_LOCAL_SECONDS"):
        Config()
    monkeypatch.setenv("JMARS_LOCAL_SECONDS", "0.5")
    assert Config().local_seconds == 0.5


@pytest.mark.parametrize("kernels, jit", [("numpy", "on"), ("numexpr", "fast"), ("jit", "off")])
def test_switches_that_contradict_each_other_are_refused(kernels, jit):
    with pytest.raises(SettingError, match="contradict"):
        compile_graph(TensorGraph(), {"kernels": kernels, "jit": jit})


@pytest.mark.parametrize("kernels", ["numexpr", "jit"])
def test_a_back_end_that_is_not_installed_is_refused(kernels, monkeypatch):
    monkeypatch.setattr(passes, "llvm_there", lambda: False)
    monkeypatch.setattr(passes, "numexpr_there", lambda: False)
    compile_graph(TensorGraph(), {"jit": "on"})
    with pytest.raises(SettingError, match=rf"pip install jmars\[{kernels}\]"):
        compile_graph(TensorGraph(), {"kernels": kernels})
