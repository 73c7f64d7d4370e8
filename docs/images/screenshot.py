#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""screenshot.py PAGE PICTURE [ID]: take a picture of a page of `verbena report`.

With the id of a figure the picture shows that figure alone; with the id of a heading it shows a
window of 1280 x 800 from there on, and without an id the top of the page. Needs Debian's
python3-selenium and chromium-driver.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
WAIT_S = 20


def shoot(page: Path, picture: Path, name: str | None) -> None:
    """Write the picture as PNG."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        try:
            driver.get(page.resolve().as_uri())
            found = driver.find_element(By.ID, name) if name else None
            alone = found is not None and found.tag_name == "figure"
            size = {"width": 900 if alone else 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            if found is None:
                driver.save_screenshot(str(picture))
                return
            driver.execute_script("arguments[0].scrollIntoView()", found)
            drawn = WebDriverWait(driver, WAIT_S)
            drawn.until(lambda _: not alone or found.find_elements(By.CSS_SELECTOR, ".legend button"))
            # A plot is drawn when it comes into sight.
            driver.execute_async_script("setTimeout(arguments[0], 500)")
            (found.screenshot if alone else driver.save_screenshot)(str(picture))
        finally:
            driver.quit()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    shoot(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) == 4 else None)
