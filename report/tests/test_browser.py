# SPDX-License-Identifier: Apache-2.0
"""The page in headless Chromium: plots, legends, tables, widths, and no request that leaves it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from report.tests import synthetic
from report.tests.running import run
from report.tests.synthetic_calls import ENVIRONMENT
from report.tests.synthetic_calls import row as call

WAIT_S = 20
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
# The visible points of a plot, by the colours of its pixels: how many have that of a property.
PIXELS = """
const canvas = arguments[0].querySelector("canvas"), wanted = arguments[1];
const probe = document.createElement("canvas").getContext("2d");
probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(wanted).trim();
const hex = parseInt(probe.fillStyle.slice(1), 16);
const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
let count = 0;
for (let i = 0; i < data.length; i += 4)
	count += data[i + 3] > 250 && (data[i] << 16 | data[i + 1] << 8 | data[i + 2]) === hex;
return count;
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    doubtful = synthetic.row("RC", 16384, 64, "local", 1.0) | {"mops": 2.0}
    (folder / "rcud.json").write_text(synthetic.json_text([*synthetic.rows(), doubtful]), encoding="utf-8")
    calls = [call(size, 16, qps, transport=t) for t, qps in (("rdma", 9e4), ("tcp", 4e4)) for size in ("128B", "4K")]
    (folder / "rpc.csv").write_text(synthetic.table_text(calls, ENVIRONMENT), encoding="utf-8")
    done = run("rcud.json", "rpc.csv", "-o", "page.html", "--plots", "plots", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    made = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        made.set_page_load_timeout(WAIT_S)
        yield made
    finally:
        made.quit()
        shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def opened(driver: webdriver.Chrome, page: Path) -> webdriver.Chrome:
    show(driver, page, 1280, "light")
    return driver


def show(driver: webdriver.Chrome, page: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme_is = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme_is})
    driver.get(page.as_uri())


def figure(driver: webdriver.Chrome, name: str) -> WebElement:
    found = driver.find_element(By.ID, name)
    driver.execute_script("arguments[0].scrollIntoView()", found)
    WebDriverWait(driver, WAIT_S).until(lambda _: found.find_elements(By.CSS_SELECTOR, ".legend button"))
    return found


def entry(plot: WebElement, text: str) -> WebElement:
    buttons = plot.find_elements(By.CSS_SELECTOR, ".legend button")
    return next(button for button in buttons if button.text == text)


def test_a_click_on_a_legend_entry_makes_its_series_vanish_and_another_brings_it_back(opened: webdriver.Chrome) -> None:
    plot = figure(opened, "rcud-mops_vs_message_size_window_64")

    def blue() -> int:
        return opened.execute_script(PIXELS, plot, "--blue")

    for credit in ("RC, credit window", "RC, published"):
        entry(plot, credit).click()
    before = blue()
    assert before > 200
    button = entry(plot, "RC, local window")
    button.click()
    assert button.get_attribute("aria-pressed") == "false" and blue() == 0
    button.click()
    assert button.get_attribute("aria-pressed") == "true" and blue() == before


def test_tcp_and_rdma_are_entries_of_one_legend(opened: webdriver.Chrome) -> None:
    plot = figure(opened, "rpc-qps_vs_size_sink")
    assert entry(plot, "rdma, 16 in flight") and entry(plot, "tcp, 16 in flight")


def test_the_value_under_the_pointer_is_shown_with_its_interval(opened: webdriver.Chrome) -> None:
    plot = figure(opened, "rcud-mops_vs_message_size_window_4")
    canvas = plot.find_element(By.TAG_NAME, "canvas")
    webdriver.ActionChains(opened).move_to_element(canvas).perform()
    lines = opened.execute_script(
        "return Chart.getChart(arguments[0]).tooltip.body.flatMap((item) => item.lines)", canvas
    )
    (local,) = [line for line in lines if line.startswith("RC, local window: ")]
    # RC of 512 B, which is in the middle: 9 / (1 + 512 / 4000) Mops, of 0.97 to 1.02 times that.
    assert local == "RC, local window: 7.98 [7.74, 8.14]"


def test_the_axis_becomes_logarithmic_and_linear_again(opened: webdriver.Chrome) -> None:
    plot = figure(opened, "rcud-mops_vs_message_size_window_4")
    canvas = plot.find_element(By.TAG_NAME, "canvas")

    def kind() -> str:
        return opened.execute_script("return Chart.getChart(arguments[0]).scales.y.type", canvas)

    box = plot.find_element(By.CSS_SELECTOR, "[data-axis=y]")
    assert kind() == "linear" and not box.is_selected()
    box.click()
    assert kind() == "logarithmic"
    box.click()
    assert kind() == "linear"


def test_a_row_that_is_not_valid_is_drawn_faint_and_not_joined(opened: webdriver.Chrome) -> None:
    plot = figure(opened, "rcud-mops_vs_message_size_window_64")
    canvas = plot.find_element(By.TAG_NAME, "canvas")
    sets = opened.execute_script(
        "return Chart.getChart(arguments[0]).data.datasets.filter((set) => set.doubtful && !set.behind)"
        ".map((set) => [set.label, set.showLine, set.data.map((point) => [point.x, point.validity])])",
        canvas,
    )
    assert sets == [["RC, local window", False, [[16384, "invalid"]]]]


def test_the_percentiles_of_another_cell_can_be_chosen(opened: webdriver.Chrome) -> None:
    plot = figure(opened, "rcud-spectrum")
    Select(plot.find_element(By.TAG_NAME, "select")).select_by_visible_text("64 B, window 4")
    texts = [button.text for button in plot.find_elements(By.CSS_SELECTOR, ".legend button")]
    assert texts == ["RC SEND, local", "UD SEND, local", "RC SEND, credit", "UD SEND, credit"]


def column(table: WebElement, place: int) -> list[str]:
    rows = table.find_elements(By.CSS_SELECTOR, "tbody tr:not([hidden])")
    return [row.find_elements(By.CSS_SELECTOR, "th, td")[place].get_attribute("textContent").strip() for row in rows]


def test_a_table_sorts_by_number_in_both_directions_and_filters_by_words(opened: webdriver.Chrome) -> None:
    box = opened.find_element(By.CSS_SELECTOR, ".verdicts")
    head = box.find_element(By.XPATH, ".//th[button[text()='Ratio']]")
    button = head.find_element(By.TAG_NAME, "button")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    for direction, sign in (("ascending", 1), ("descending", -1)):
        button.click()
        assert head.get_attribute("aria-sort") == direction
        texts = column(box, 2)
        ratios = [float(text.rstrip("×")) for text in texts if text]
        assert ratios == sorted(ratios, key=lambda ratio: sign * ratio) and len(set(ratios)) > 3
        assert texts[: len(ratios)] == [text for text in texts if text], "rows without a ratio come last"
    box.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys("128b flight")
    assert column(box, 0) == ["128B, 16 in flight"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_and_the_page_follows_the_colour_scheme(
    driver: webdriver.Chrome, page: Path, width: int, scheme: str
) -> None:
    show(driver, page, width, scheme)
    for plot in driver.find_elements(By.CSS_SELECTOR, "figure"):
        figure(driver, plot.get_attribute("id"))
    # The scroll bar is not part of the width.
    assert driver.execute_script("const e = document.documentElement; return e.scrollWidth - e.clientWidth") == 0
    beyond = driver.execute_script(
        "return [...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll') && "
        "each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    red = int(ground.split("(")[1].split(",")[0])
    assert (red < 60) == (scheme == "dark")


def test_no_request_leaves_the_page_and_its_program_logs_no_error(opened: webdriver.Chrome, page: Path) -> None:
    for kind in ("performance", "browser"):  # that of earlier pages
        opened.get_log(kind)
    opened.get(page.as_uri())
    for plot in opened.find_elements(By.CSS_SELECTOR, "figure"):
        figure(opened, plot.get_attribute("id"))
    events = [json.loads(each["message"])["message"] for each in opened.get_log("performance")]
    urls = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert urls == {page.as_uri()}
    assert opened.get_log("browser") == []
